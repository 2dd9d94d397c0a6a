"""The initial state: anonymous amounts that are allocated on one NUMA node from the start.

They are put directly into the managers' states, as pods pinned to that node would have left them: the lowest
free CPUs and devices, and memory that makes the node one of single-node allocations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from numaplace.errors import ScenarioError
from numaplace.managers.cpu.bits import bits_of
from numaplace.managers.cpu.static import StaticCpuPolicy
from numaplace.managers.device_manager import ContainerRequest, DeviceManager, PodUid
from numaplace.managers.devices import PreferredCall
from numaplace.model.device import Device
from numaplace.model.names import CPU, DeviceId, ResourceName, is_memory
from numaplace.model.podresources import MemoryBlock
from numaplace.simulate.scenario.records import Share
from numaplace.simulate.simulator.node import SimulatedNode, free_on

CONTAINER = "allocated"


def occupy(node: SimulatedNode, shares: Sequence[Share]) -> tuple[PodUid, ...]:
    """Put the shares into the managers' states; return their holders.

    ``ScenarioError`` names every one that does not fit.
    """
    problems: list[str] = []
    holders = []
    for number, share in enumerate(shares):
        uid = PodUid(f"allocated-{number}")
        node.kubelet.devices.active.add(uid)
        holders.append(uid)
        for resource, amount in share.amounts.items():
            for reason in _occupy_one(node, uid, share, resource=resource, amount=amount):
                problems.append(f"{share.where}: {share.key}.{resource}: {reason}")  # noqa: PERF401
    if problems:
        raise ScenarioError(tuple(problems))
    return tuple(holders)


def _occupy_one(
    node: SimulatedNode, uid: PodUid, share: Share, *, resource: ResourceName, amount: int
) -> Iterator[str]:
    """Take one amount, or yield why it cannot be taken."""
    if amount == 0:
        return
    if resource == CPU:
        yield from _occupy_cpus(node, uid, share.numa, milli=amount)
    elif is_memory(resource):
        yield from _occupy_memory(node, uid, share.numa, type_=resource, size_bytes=amount)
    else:
        yield from _occupy_devices(node, uid, share.numa, resource=resource, count=amount)


def _too_few(numa: int, free: int, amount: int) -> str:
    return f"NUMA node {numa} has {free} free, not {amount}"


def _occupy_cpus(node: SimulatedNode, uid: PodUid, numa: int, *, milli: int) -> Iterator[str]:
    policy = node.cpu_policy
    if not isinstance(policy, StaticCpuPolicy):
        yield "there are no exclusive CPUs unless cpuManagerPolicy is static"
        return
    if milli % 1000:
        yield "exclusive CPUs are whole CPUs"
        return
    count = milli // 1000
    available = policy.available_bits(node.cpu.state) & policy.topology.bits_in_numa([numa])
    free = [cpu for cpu in sorted(node.topology.cpus[numa]) if available >> cpu & 1]
    if len(free) < count:
        yield _too_few(numa, len(free), count)
        return
    node.cpu.state = node.cpu.state.with_assigned((uid, CONTAINER), bits_of(free[:count]))


def _occupy_memory(
    node: SimulatedNode, uid: PodUid, numa: int, *, type_: ResourceName, size_bytes: int
) -> Iterator[str]:
    if not node.memory_policy.allocatable():
        yield "no memory is bound to a NUMA node unless memoryManagerPolicy is Static"
        return
    state = node.memory.state
    free = state.machine.nodes[numa].table(type_).free
    if free < size_bytes:
        yield _too_few(numa, free, size_bytes)
        return
    key = (uid, CONTAINER)
    blocks = (*state.assigned.get(key, ()), MemoryBlock(type_, size_bytes, (numa,)))
    node.memory.state = replace(
        state,
        machine=state.machine.assign((numa,), type_, size_bytes=size_bytes),
        assigned={**state.assigned, key: blocks},
    )


def _occupy_devices(
    node: SimulatedNode, uid: PodUid, numa: int, *, resource: ResourceName, count: int
) -> Iterator[str]:
    if node.devices.published(resource) is None:
        yield "the node has no such resource"
        return
    free = free_on(node, resource, numa)
    if len(free) < count:
        yield _too_few(numa, len(free), count)
        return
    _take(node.devices, uid, resource, tuple(free[:count]), active=node.kubelet.devices.active)


def _take(
    manager: DeviceManager,
    uid: PodUid,
    resource: ResourceName,
    ids: tuple[DeviceId, ...],
    *,
    active: set[PodUid],
) -> None:
    """Allocate exactly these devices: nothing else is offered while it happens."""
    published = tuple((manager.published(resource) or {}).values())
    wanted = frozenset(ids)
    others: list[Device] = [replace(device, healthy=False) for device in published if device.id not in wanted]
    manager.publish(resource, [device for device in published if device.id in wanted] + others)
    request = ContainerRequest(pod=uid, name=CONTAINER, resources=((resource, len(ids)),))
    for call in manager.allocate(request, active=active):
        assert not isinstance(call, PreferredCall) or call.size == len(ids)  # noqa: S101
    manager.publish(resource, published)
