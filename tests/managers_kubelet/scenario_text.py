"""Small scenarios of two NUMA nodes, as values."""

from __future__ import annotations

from collections.abc import Mapping

from numaplace.engine.options import PolicyName
from numaplace.managers.admission import Scope
from numaplace.managers.device_manager import ContainerKind, PodUid
from numaplace.managers.memory.reserved import MemoryReservation
from numaplace.managers.pod import Container, Pod
from numaplace.model.device import Device
from numaplace.model.names import CPU, MEMORY, DeviceId, ResourceName
from numaplace.simulate.scenario.records import Create, KubeletSettings, Machine, NumaNode, Scenario

GIB = 1024**3
GPU = ResourceName("example.com/gpu")


def scenario(*, policy: str = "single-numa-node", scope: Scope = Scope.CONTAINER) -> Scenario:
    """Two nodes with 8 CPUs, 16 GiB and 2 GPUs each; one CPU and 1 GiB of each are reserved."""
    nodes = tuple(
        NumaNode(node, frozenset(range(node * 8, node * 8 + 8)), {MEMORY: 16 * GIB}) for node in (0, 1)
    )
    gpus = tuple(Device(DeviceId(f"gpu-{node}-{number}"), (node,)) for node in (0, 1) for number in range(2))
    settings = KubeletSettings(
        topology_policy=PolicyName(policy),
        scope=scope,
        cpu_policy="static",
        memory_policy="Static",
        reserved_cpus=frozenset((0, 8)),
        reserved_memory=tuple(MemoryReservation(node, {MEMORY: GIB}) for node in (0, 1)),
    )
    return Scenario(Machine(nodes, devices={GPU: gpus}), settings)


def containers(
    *, sidecar: bool = False, **amounts: Mapping[ResourceName, int]
) -> tuple[tuple[str, Mapping[ResourceName, int], bool], ...]:
    """Return (name, amounts, sidecar); CPUs are whole, memory is 1 GiB unless it is given."""
    return tuple(
        (name, {MEMORY: GIB, CPU: 1, **given} | {CPU: 1000 * given.get(CPU, 1)}, sidecar)
        for name, given in amounts.items()
    )


def create(name: str, *, containers: tuple, init: tuple = (), number: int = 0) -> Create:
    """Return the step that creates a Guaranteed pod."""
    return Create(
        Pod(
            PodUid(f"{name}-{number}"),
            "default",
            name,
            tuple(Container(one, amounts, amounts) for one, amounts, _ in containers),
            tuple(
                Container(one, amounts, amounts, ContainerKind.SIDECAR if keeps else ContainerKind.INIT)
                for one, amounts, keeps in init
            ),
        )
    )
