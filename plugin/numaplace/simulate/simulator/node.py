"""The simulated node: the kubelet's managers in their present state, and what they have given away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from numaplace.managers.admission import Merge, Scope
from numaplace.managers.cpu.state import CpuState
from numaplace.managers.device_manager import DeviceManager, PodUid
from numaplace.managers.devices import natural_order
from numaplace.managers.kubelet import Answer, Kubelet, StatefulProvider, TopologyManager
from numaplace.managers.memory.static import MemoryState
from numaplace.model.device import Device
from numaplace.model.names import CPU, DeviceId, ResourceName
from numaplace.model.podresources import MemoryBlock
from numaplace.simulate.scenario.records import Health
from numaplace.simulate.simulator.managers import Managers
from numaplace.simulate.simulator.results import HeldDevices, NodeUse


class SimulatedNode:
    """One node. ``kubelet`` admits and deletes pods; everything else reads, or changes devices' health."""

    def __init__(
        self,
        managers: Managers,
        devices: Mapping[ResourceName, tuple[Device, ...]],
        *,
        merge: Merge | None,
        scope: Scope,
        answer: Answer,
    ) -> None:
        self.topology = managers.topology
        self.cpu: StatefulProvider[CpuState] = StatefulProvider(managers.cpu)
        self.memory: StatefulProvider[MemoryState] = StatefulProvider(managers.memory)
        self.devices = DeviceManager()
        self.cpu_policy, self.memory_policy = managers.cpu, managers.memory
        for resource in sorted(devices):
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

    def set_health(self, change: Health) -> None:
        """Publish the resource's devices again, some with another health."""
        ids = frozenset(change.ids)
        self.devices.publish(
            change.resource,
            [
                replace(device, healthy=change.healthy) if device.id in ids else device
                for device in (self.devices.published(change.resource) or {}).values()
            ],
        )

    def held_cpus(self, uid: PodUid, container: str) -> frozenset[int]:
        """Return a container's exclusive CPUs."""
        return self.cpu.state.cpus(uid, container) or frozenset()

    def held_memory(self, uid: PodUid, container: str) -> tuple[MemoryBlock, ...]:
        """Return a container's memory, by type."""
        blocks = self.memory_policy.blocks(self.memory.state, uid, container)
        return tuple(sorted(blocks, key=lambda block: (block.type, block.nodes)))

    def held_devices(self, uid: PodUid, container: str) -> dict[ResourceName, HeldDevices]:
        """Return a container's devices by resource, sorted."""
        held = self.devices.held(uid, container)
        return {
            resource: HeldDevices(
                tuple(natural_order(held[resource])),
                tuple(sorted({node for nodes in held[resource].values() for node in nodes})),
            )
            for resource in sorted(held)
        }

    def use(self) -> tuple[NodeUse, ...]:
        """Return each NUMA node's amounts."""
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
            published = self.devices.published(resource) or {}
            in_use = self.devices.in_use(resource)
            yield (
                resource,
                _devices_per_node(device for device in published.values() if device.healthy),
                _devices_per_node(published[id_] for id_ in in_use if id_ in published),
            )

    def _per_node(self, cpus: frozenset[int]) -> Mapping[int, int]:
        return Counter(self._node_of_cpu[cpu] for cpu in cpus)


def _devices_per_node(devices: Iterator[Device]) -> Mapping[int, int]:
    return Counter(node for device in devices for node in device.nodes)


def free_on(node: SimulatedNode, resource: ResourceName, numa: int) -> list[DeviceId]:
    """Return the free devices that touch a NUMA node, in natural order."""
    published = node.devices.published(resource) or {}
    return [id_ for id_ in natural_order(node.devices.free(resource)) if numa in published[id_].nodes]
