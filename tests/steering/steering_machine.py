"""Machines of ported managers for the steering tests: filled pod by pod, read through PodResources values.

What a request gets is measured here on the real NUMA nodes of ids, independently of the predictor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from numaplace.engine.options import PolicyName, PolicyOptions
from numaplace.engine.policy import POLICIES
from numaplace.managers.admission import Outcome, Scope
from numaplace.managers.cpu.options import CpuPolicyOptions
from numaplace.managers.cpu.policy import NoneCpuPolicy
from numaplace.managers.cpu.static import StaticCpuPolicy
from numaplace.managers.cpu.topology import CpuDetail, CpuTopology
from numaplace.managers.device_manager import DeviceManager, PodUid
from numaplace.managers.devices import natural_order
from numaplace.managers.kubelet import Kubelet, StatefulProvider, TopologyManager
from numaplace.managers.memory.machine import machine_memory
from numaplace.managers.memory.policies import NoneMemoryPolicy
from numaplace.managers.memory.static import static_policy
from numaplace.model.device import Device
from numaplace.model.mask import nodes_of
from numaplace.model.names import CPU, MEMORY, DeviceId, ResourceName
from numaplace.model.podresources import Allocatable, ContainerUse, DeviceBlock, PodUse
from numaplace.model.topology import NumaTopology
from numaplace.prediction.model import KubeletModel
from numaplace.prediction.request import Request
from numaplace.prediction.state import StateUnknown, SteeringState, state_of
from numaplace.state.snapshot import Snapshot, build_snapshot
from numaplace.steering.published_topology import published

GPU, VF, NIC = (ResourceName(f"example.com/{name}") for name in ("gpu", "vf", "nic"))
GIB = 1024**3

Withheld = Mapping[ResourceName, frozenset[int]]


@dataclass(frozen=True)
class Hardware:
    """A machine and its kubelet's configuration. ``cpus`` 0: no static CPU manager; ``memory`` 0 likewise.

    One core and 1 GiB of each NUMA node are there besides; a CPU of the core and the memory are reserved.
    """

    nodes: int = 2
    cpus: tuple[int, ...] = (8, 8)
    memory_gib: tuple[int, ...] = (16, 16)
    devices: Mapping[ResourceName, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    unhealthy: frozenset[DeviceId] = frozenset()
    policy: PolicyName = PolicyName.SINGLE_NUMA_NODE
    scope: Scope = Scope.CONTAINER
    options: PolicyOptions = field(default_factory=PolicyOptions)
    cpu_options: CpuPolicyOptions = field(default_factory=CpuPolicyOptions)
    steerable: frozenset[ResourceName] = frozenset((GPU, VF))
    hints_over_all_nodes: bool = False
    nodes_of_a_socket: int = 1
    threads: int = 1

    @property
    def topology(self) -> NumaTopology:
        first, cpus = 0, {}
        for node in range(self.nodes):
            count = self.cpus[node] + self.threads if self.cpus else 2
            cpus[node] = frozenset(range(first, first + count))
            first += count
        return NumaTopology(tuple(range(self.nodes)), cpus)

    def cpu_policy(self):
        if not self.cpus:
            return NoneCpuPolicy()
        topology = self.topology
        details = {
            cpu: CpuDetail(node, node // self.nodes_of_a_socket, cpu - (cpu - min(cpus)) % self.threads, node)
            for node, cpus in topology.cpus.items()
            for cpu in cpus
        }
        reserved = frozenset(min(cpus) for cpus in topology.cpus.values())
        return StaticCpuPolicy.reserving(
            CpuTopology.of(details), self.cpu_options, count=len(reserved), reserved_cpus=reserved
        )

    def memory_policy(self):
        if not self.memory_gib:
            return NoneMemoryPolicy(machine_memory({node: {} for node in range(self.nodes)}, {}))
        sizes = {node: {MEMORY: (self.memory_gib[node] + 1) * GIB} for node in range(self.nodes)}
        return static_policy(machine_memory(sizes, {node: {MEMORY: GIB} for node in sizes}))

    def device_tables(self) -> dict[ResourceName, dict[DeviceId, Device]]:
        tables: dict[ResourceName, dict[DeviceId, Device]] = {}
        for resource, all_nodes in self.devices.items():
            ids = [DeviceId(f"{resource.partition('/')[2]}{number}") for number in range(len(all_nodes))]
            tables[resource] = {
                id_: Device(id_, nodes, healthy=id_ not in self.unhealthy)
                for id_, nodes in zip(ids, all_nodes, strict=True)
            }
        return tables

    def steering_node(self) -> KubeletModel:
        return KubeletModel(
            self.topology,
            self.policy,
            self.scope,
            self.options,
            self.cpu_policy(),
            self.memory_policy(),
            self.steerable,
        )


class Machine:
    """A kubelet that admits requests as pods. ``withheld`` requests what it is told of the devices."""

    def __init__(self, hardware: Hardware, *, options: PolicyOptions | None = None) -> None:
        self.hardware = hardware
        self.topology = hardware.topology
        self.tables = hardware.device_tables()
        self.cpu = StatefulProvider(hardware.cpu_policy())
        self.memory = StatefulProvider(hardware.memory_policy())
        self.devices = DeviceManager()
        policy, used = POLICIES[hardware.policy], options or hardware.options
        merge = (
            None if policy.name is PolicyName.NONE else lambda hints: policy.merge(hints, self.topology, used)
        )
        self.kubelet = Kubelet(
            self.topology,
            topology_manager=TopologyManager(merge, hardware.scope),
            cpu=self.cpu,
            memory=self.memory,
            devices=self.devices,
            answer=lambda call, pod, container: natural_order(call.available)[: call.size],
            hints_over_all_nodes=hardware.hints_over_all_nodes,
        )
        self._node_of_cpu = self.topology.node_of_cpu()
        self.log: list[tuple[str, str, Request | None, Withheld]] = []
        self.publish({})

    def publish(self, withheld: Withheld) -> None:
        for resource, table in self.tables.items():
            nodes = published(table, in_use=self.devices.in_use(resource), withheld=withheld.get(resource, 0))
            self.devices.publish(resource, [replace(table[id_], nodes=nodes[id_]) for id_ in table])

    def create(self, name: str, request: Request, *, withheld: Withheld | None = None) -> Outcome:
        self.log.append(("create", name, request, withheld or {}))
        self.publish(withheld or {})
        pod = replace(request.pod(), uid=PodUid(name), name=name)
        outcome = self.kubelet.admit(pod)
        if outcome.admitted:
            self.kubelet.start(pod)
        self.publish({})
        return outcome

    def delete(self, name: str) -> None:
        pod = self.kubelet.pods.get(PodUid(name))
        if pod is not None:
            self.log.append(("delete", name, None, {}))
            self.kubelet.delete(pod)

    def copy(self, *, options: PolicyOptions | None = None) -> Machine:
        """Return a machine in the same state, by loading the managers' values."""
        other = Machine(self.hardware, options=options)
        other.cpu.state, other.memory.state = self.cpu.state, self.memory.state
        for uid, pod in self.kubelet.pods.items():
            other.kubelet.devices.active.add(uid)
            for container in pod.in_order:
                for resource, nodes in self.devices.held(uid, container.name).items():
                    other.devices.adopt(uid, container.name, resource=resource, nodes=nodes)
        return other

    def homes(self, name: str) -> list[frozenset[int]]:
        """Return the real NUMA nodes of each CPU, memory block and device that the pod has."""
        uid = PodUid(name)
        found: list[frozenset[int]] = []
        for container in self.kubelet.pods[uid].containers:
            found += [
                frozenset((self._node_of_cpu[cpu],)) for cpu in self.cpu.state.cpus(uid, container.name) or ()
            ]
            blocks = self.memory.state.assigned.get((uid, container.name), ())
            found += [frozenset(block.nodes) for block in blocks]
            for resource, ids in self.devices.held(uid, container.name).items():
                found += [frozenset(self.tables[resource][id_].nodes) for id_ in ids]
        return found

    def on_one_node(self, name: str) -> bool:
        """Return whether all of the pod is at home on one NUMA node; a device of two nodes is on either."""
        return any(all(node in home for home in self.homes(name)) for node in self.topology.nodes)

    def snapshot(self, *, devices_only: str = "") -> Snapshot:
        """Return what PodResources shows, as the daemon reads it.

        ``devices_only`` is a pod that is still under admission: its devices are granted, no more.
        """
        foreign = {resource for resource in self.tables if resource not in self.hardware.steerable}
        blocks = tuple(
            DeviceBlock(resource, (id_,), device.nodes)
            for resource in sorted(foreign)
            for id_, device in self.tables[resource].items()
            if device.healthy
        )
        allocatable = Allocatable(blocks, self.cpu.policy.allocatable, self.memory.policy.allocatable())
        return build_snapshot(
            topology=self.topology,
            allocatable=allocatable,
            pods=[self._use(uid, devices_only=uid == devices_only) for uid in self.kubelet.pods],
            devices={resource: table for resource, table in self.tables.items() if resource not in foreign},
            taken_at_seconds=0.0,
        )

    def _use(self, uid: PodUid, *, devices_only: bool) -> PodUse:
        containers = tuple(
            ContainerUse(
                one.name,
                tuple(
                    DeviceBlock(resource, tuple(ids))
                    for resource, ids in self.devices.held(uid, one.name).items()
                ),
                frozenset() if devices_only else self.cpu.state.cpus(uid, one.name) or frozenset(),
                () if devices_only else self.memory.state.assigned.get((uid, one.name), ()),
            )
            for one in self.kubelet.pods[uid].containers
        )
        return PodUse("default", uid, containers)

    def states(self) -> list[SteeringState] | StateUnknown:
        """Return the state in the form that ``choose`` takes."""
        state = self.state()
        return state if isinstance(state, StateUnknown) else [state]

    def state(self, *, devices_only: str = "") -> SteeringState | StateUnknown:
        node = self.hardware.steering_node()
        return state_of(self.snapshot(devices_only=devices_only), cpu=node.cpu, memory=node.memory)


def per_node(*counts: int) -> tuple[tuple[int, ...], ...]:
    """Return devices' NUMA nodes: so many on each node."""
    return tuple((node,) for node, count in enumerate(counts) for _ in range(count))


def request(**amounts: int) -> Request:
    """Return a one-container request; ``gpu``, ``vf``, ``nic``, ``cpu``, and ``memory`` in GiB."""
    names = {"gpu": GPU, "vf": VF, "nic": NIC, "cpu": CPU, "memory": MEMORY}
    return Request.of(
        {names[key]: amount * (GIB if key == "memory" else 1) for key, amount in amounts.items()}
    )


def pick(outcome: Outcome) -> tuple[int, ...] | None:
    """Return the NUMA nodes of the pod's last affinity; None if refused."""
    if not outcome.admitted:
        return None
    last = list(outcome.affinities.values())[-1]
    return () if last.mask is None else nodes_of(last.mask)


Requests = Sequence[Request]
