"""What does not change from one List to the next: the node's capacity, indexed by sets of NUMA nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from numaplace.model.device import Device
from numaplace.model.mask import MAX_NODE, nodes_of
from numaplace.model.names import DeviceId, ResourceName
from numaplace.model.podresources import Allocatable, MemoryBlock
from numaplace.model.topology import NumaTopology
from numaplace.state.usage import DeviceState, Tally, tally_of

ALL_NODES = (1 << MAX_NODE + 1) - 1
"""The mask of every node id that a mask can hold."""


def known_mask(nodes: Iterable[int], known: int) -> int:
    """Return the mask of those nodes that ``known`` holds. Negative and unknown ids are no topology."""
    mask = 0
    for node in nodes:
        if 0 <= node <= MAX_NODE:
            mask |= 1 << node
    return mask & known


@dataclass(frozen=True, slots=True)
class DeviceTable:
    """The devices of one resource: masks of the healthy ones, how many per mask, and both states of all."""

    healthy: Mapping[DeviceId, int]
    capacity: Mapping[int, int]
    free: Mapping[DeviceId, DeviceState]
    used: Mapping[DeviceId, DeviceState]

    def tally(self, in_use: Collection[DeviceId]) -> Tally:
        """Return the tally with these ids in use. Unhealthy and unknown devices count in neither figure."""
        used: Counter[int | None] = Counter(map(self.healthy.get, in_use))
        return tally_of(self.capacity, {mask: count for mask, count in used.items() if mask is not None})


EMPTY_TABLE = DeviceTable({}, {}, {}, {})


def _table(devices: Iterable[tuple[DeviceId, int, bool]]) -> DeviceTable:
    healthy: dict[DeviceId, int] = {}
    free: dict[DeviceId, DeviceState] = {}
    used: dict[DeviceId, DeviceState] = {}
    for device, mask, is_healthy in devices:
        free[device] = DeviceState(mask=mask, healthy=is_healthy, allocated=False)
        used[device] = DeviceState(mask=mask, healthy=is_healthy, allocated=True)
        if is_healthy:
            healthy[device] = mask
    return DeviceTable(healthy, Counter(healthy.values()), free, used)


def own_table(devices: Mapping[DeviceId, Device], known: int) -> DeviceTable:
    return _table((key, known_mask(device.nodes, known), device.healthy) for key, device in devices.items())


def foreign_tables(allocatable: Allocatable, known: int) -> dict[ResourceName, DeviceTable]:
    """Return the tables of the resources in ``allocatable``, all healthy: the kubelet leaves the others out.

    The kubelet gives one block per device and node; a device's nodes are united.
    """
    masks: dict[ResourceName, dict[DeviceId, int]] = {}
    for block in allocatable.devices:
        mask = known_mask(block.nodes, known)
        of_resource = masks.setdefault(block.resource, {})
        for device in block.ids:
            of_resource[device] = of_resource.get(device, 0) | mask
    return {
        resource: _table((device, mask, True) for device, mask in of_resource.items())
        for resource, of_resource in masks.items()
    }


def _memory_per_node(blocks: Iterable[MemoryBlock], known: int) -> dict[ResourceName, dict[int, int]]:
    """Return allocatable bytes per type and single-node mask.

    The kubelet reports one block per node; a block over several nodes is divided evenly, the remainder to the
    lowest nodes.
    """
    found: dict[ResourceName, dict[int, int]] = {}
    for block in blocks:
        nodes = nodes_of(known_mask(block.nodes, known))
        if block.size_bytes <= 0 or not nodes:
            continue
        per_node = found.setdefault(block.type, {})
        share, remainder = divmod(block.size_bytes, len(nodes))
        for index, node in enumerate(nodes):
            per_node[1 << node] = per_node.get(1 << node, 0) + share + (index < remainder)
    return found


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """CPUs, memory and foreign devices: everything that follows from topology and Allocatable alone.

    ``known`` is the mask of the topology's nodes, ``cpu_masks`` the single-node mask of each CPU.
    ``cpus`` and ``memory`` hold amounts per single-node mask.
    """

    known: int
    cpu_masks: Mapping[int, int]
    cpus: Mapping[int, int]
    memory: Mapping[ResourceName, Mapping[int, int]]
    foreign: Mapping[ResourceName, DeviceTable]


def node_capacity_of(topology: NumaTopology, allocatable: Allocatable) -> NodeCapacity:
    """Index ``allocatable`` (GetAllocatableResources: capacity without reserved CPUs) by NUMA node."""
    known = topology.mask
    cpu_masks = {cpu: 1 << node for cpu, node in topology.node_of_cpu().items() if node in topology.nodes}
    return NodeCapacity(
        known=known,
        cpu_masks=cpu_masks,
        cpus=Counter(cpu_masks[cpu] for cpu in allocatable.cpus if cpu in cpu_masks),
        memory=_memory_per_node(allocatable.memory, known),
        foreign=foreign_tables(allocatable, known),
    )
