"""The simulated node: the kubelet's managers with their current state, and what they have allocated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from numaplace.engine.hint import Hint
from numaplace.managers.admission import Merge, Scope
from numaplace.managers.cpu.state import CpuState
from numaplace.managers.device_manager import DeviceManager, PodUid
from numaplace.managers.devices import natural_order
from numaplace.managers.kubelet import Answer, Kubelet, StatefulProvider, TopologyManager
from numaplace.managers.memory.static import MemoryState
from numaplace.managers.pod import Container, Pod
from numaplace.model.device import Device
from numaplace.model.names import CPU, DeviceId, ResourceName
from numaplace.model.podresources import MemoryBlock
from numaplace.prediction.predict import NOTHING_WITHHELD, Withheld
from numaplace.simulate.scenario.records import Health
from numaplace.simulate.simulator.managers import Managers
from numaplace.simulate.simulator.results import HeldDevices, NodeUse
from numaplace.steering.published_topology import published

Allocated = Callable[[Pod, Container], None]


class SimulatedNode:
    """One node. ``kubelet`` admits and deletes pods; the rest reads, or changes devices' health and topology.

    ``allocated`` is called with every container that has all its resources.
    """

    def __init__(
        self,
        managers: Managers,
        devices: Mapping[ResourceName, tuple[Device, ...]],
        *,
        merge: Merge | None,
        scope: Scope,
        answer: Answer,
        allocated: Allocated,
    ) -> None:
        self.topology = managers.topology
        self.cpu: StatefulProvider[CpuState] = StatefulProvider(managers.cpu)
        self.memory = _LastProvider(managers, allocated)
        self.devices = DeviceManager()
        self.cpu_policy, self.memory_policy = managers.cpu, managers.memory
        self._hardware: dict[ResourceName, dict[DeviceId, Device]] = {}
        self._withheld = NOTHING_WITHHELD
        for resource in sorted(devices):
            self._hardware[resource] = {device.id: device for device in devices[resource]}
            self.devices.publish(resource, devices[resource])
        self.kubelet = Kubelet(
            managers.topology,
            topology_manager=TopologyManager(merge, scope),
            cpu=self.cpu,
            memory=self.memory,
            devices=self.devices,
            answer=answer,
        )
        self._node_of_cpu = managers.topology.node_of_cpu()

    def hardware(self, resource: ResourceName) -> Mapping[DeviceId, Device]:
        """Return the resource's devices with their real topology, whatever is published."""
        return self._hardware.get(resource, {})

    def set_health(self, change: Health) -> None:
        ids = frozenset(change.ids)
        self._hardware[change.resource] = {
            id_: replace(device, healthy=change.healthy) if id_ in ids else device
            for id_, device in self.hardware(change.resource).items()
        }
        self._publish(change.resource)

    def publish(self, withheld: Withheld) -> None:
        """Publish the free devices on these NUMA nodes without topology, all others with theirs."""
        concerned = self._withheld.keys() | withheld.keys()
        self._withheld = withheld
        for resource in concerned:
            self._publish(resource)

    def _publish(self, resource: ResourceName) -> None:
        devices = self._hardware[resource]
        nodes = published(
            devices,
            in_use=self.devices.in_use(resource),
            withheld=self._withheld.get(resource, 0),
        )
        self.devices.publish(
            resource,
            [
                device if device.nodes == nodes[id_] else replace(device, nodes=nodes[id_])
                for id_, device in devices.items()
            ],
        )

    def held_cpus(self, uid: PodUid, container: str) -> frozenset[int]:
        return self.cpu.state.cpus(uid, container) or frozenset()

    def held_memory(self, uid: PodUid, container: str) -> tuple[MemoryBlock, ...]:
        blocks = self.memory_policy.blocks(self.memory.state, uid, container)
        return tuple(sorted(blocks, key=lambda block: (block.type, block.nodes)))

    def held_devices(self, uid: PodUid, container: str) -> dict[ResourceName, HeldDevices]:
        held = self.devices.held(uid, container)
        return {
            resource: HeldDevices(
                tuple(natural_order(held[resource])),
                tuple(sorted({node for id_ in held[resource] for node in self.nodes_of(resource, id_)})),
            )
            for resource in sorted(held)
        }

    def nodes_of(self, resource: ResourceName, id_: DeviceId) -> tuple[int, ...]:
        device = self.hardware(resource).get(id_)
        return () if device is None else device.nodes

    def use(self) -> tuple[NodeUse, ...]:
        amounts = tuple(self._amounts())
        return tuple(
            NodeUse(
                node,
                {resource: allocatable.get(node, 0) for resource, allocatable, _ in amounts},
                {resource: allocated.get(node, 0) for resource, _, allocated in amounts},
            )
            for node in self.topology.nodes
        )

    def _amounts(self) -> Iterator[tuple[ResourceName, Mapping[int, int], Mapping[int, int]]]:
        """Yield (resource, allocatable by node, allocated by node)."""
        allocatable = self.cpu_policy.allocatable
        if allocatable:
            taken: frozenset[int] = frozenset().union(*self.cpu.state.assigned.values())
            yield CPU, self._per_node(allocatable), self._per_node(taken)
        if self.memory_policy.allocatable():
            nodes = self.memory.state.machine.nodes
            for type_ in sorted({type_ for node in nodes.values() for type_ in node.tables}):
                tables = {id_: node.table(type_) for id_, node in nodes.items()}
                yield (
                    type_,
                    {id_: table.allocatable for id_, table in tables.items()},
                    {id_: table.reserved for id_, table in tables.items()},
                )
        for resource in sorted(self.devices.resources):
            devices = self.hardware(resource)
            in_use = self.devices.in_use(resource)
            yield (
                resource,
                _devices_per_node(device for device in devices.values() if device.healthy),
                _devices_per_node(devices[id_] for id_ in in_use if id_ in devices),
            )

    def _per_node(self, cpus: frozenset[int]) -> Mapping[int, int]:
        return Counter(self._node_of_cpu[cpu] for cpu in cpus)


class _LastProvider(StatefulProvider[MemoryState]):
    """The memory manager is called last, and so knows when a container has everything."""

    def __init__(self, managers: Managers, allocated: Allocated) -> None:
        super().__init__(managers.memory)
        self._allocated = allocated

    def allocate(self, pod: Pod, container: Container, affinity: Hint) -> None:
        super().allocate(pod, container, affinity)
        self._allocated(pod, container)


def _devices_per_node(devices: Iterator[Device]) -> Mapping[int, int]:
    return Counter(node for device in devices for node in device.nodes)


def free_on(node: SimulatedNode, resource: ResourceName, numa: int) -> list[DeviceId]:
    """Return the free devices that touch a NUMA node, in natural order."""
    free = natural_order(node.devices.free(resource))
    return [id_ for id_ in free if numa in node.nodes_of(resource, id_)]
