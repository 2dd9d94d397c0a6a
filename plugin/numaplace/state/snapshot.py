"""The allocation state of one Kubernetes node at one moment, per resource and set of NUMA nodes.

What is in use: devices in the PodResources List, plus grants that it does not show yet, minus what the
kubelet offers right now. Init containers are never listed (kubernetes/kubernetes#126765): their devices come
from the grants. Exclusive CPUs only: the shared pool is not reported (kubernetes/kubernetes#102190).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from numaplace.model.device import Device
from numaplace.model.mask import nodes_of, width
from numaplace.model.names import CPU, DeviceId, IdsByResource, ResourceName
from numaplace.model.podresources import Allocatable, ContainerUse, PodUse
from numaplace.model.topology import NumaTopology
from numaplace.state.capacity import EMPTY_TABLE, NodeCapacity, known_mask
from numaplace.state.pod_totals import ContributionCache, ResourceState, Totals
from numaplace.state.usage import NO_USAGE, DeviceState, Tally, Usage, node_memory, tally_of

__all__ = ["ContributionCache", "DeviceState", "Snapshot", "Usage", "build_snapshot"]

NO_STATE = ResourceState(EMPTY_TABLE, frozenset(), Tally())
NOTHING_HELD: IdsByResource = {}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Allocation state, taken at ``taken_at_seconds`` of the caller's monotonic clock.

    ``pods`` are the pods that it counts, ``tallies`` hold every resource that has state, ``device_states``
    those that are devices. Amounts are exclusive CPUs, bytes, or devices. Unknown names read as empty.
    ``memory_groups`` are the sets of several NUMA nodes that containers have memory of: as long as they do,
    the kubelet takes memory from such a set or from none of it (``policy_static.go``, calculateHints).
    """

    topology: NumaTopology
    taken_at_seconds: float
    pods: tuple[PodUse, ...] = ()
    tallies: Mapping[ResourceName, Tally] = field(default_factory=dict)
    device_states: Mapping[ResourceName, ResourceState] = field(default_factory=dict)
    cpu_masks: Mapping[int, int] = field(default_factory=dict, repr=False)
    memory_groups: frozenset[int] = frozenset()
    _devices: dict[ResourceName, Mapping[DeviceId, DeviceState]] = field(
        default_factory=dict, compare=False, repr=False, init=False
    )

    @property
    def resources(self) -> tuple[ResourceName, ...]:
        return tuple(sorted(self.tallies))

    def usage(self, resource: ResourceName, mask: int) -> Usage:
        tally = self.tallies.get(resource)
        return NO_USAGE if tally is None else tally.usage(mask)

    def score(self, resource: ResourceName, mask: int) -> int:
        tally = self.tallies.get(resource)
        return 0 if tally is None else tally.score(mask)

    def per_node(self, resource: ResourceName) -> Mapping[int, Usage]:
        """Return the usage of each single NUMA node. The sum counts a device of several nodes repeatedly."""
        return {node: self.usage(resource, 1 << node) for node in self.topology.nodes}

    def in_use(self, resource: ResourceName) -> frozenset[DeviceId]:
        """Return the ids in use, unhealthy and unknown devices included."""
        return self.device_states.get(resource, NO_STATE).in_use

    def devices(self, resource: ResourceName) -> Mapping[DeviceId, DeviceState]:
        """Return the state of each device. One in use that its source does not know reads as unhealthy."""
        found = self._devices.get(resource)
        if found is None:
            found = self._devices[resource] = self._states_of(resource)
        return found

    def largest_single_node_fit(self, resource: ResourceName) -> int:
        return max((usage.free for usage in self.per_node(resource).values()), default=0)

    def containers_per_node(self) -> Mapping[int, int]:
        """Return how many containers hold something on each NUMA node (KEP-6007, numa_container_count).

        A container counts for every node that its devices, exclusive CPUs and memory touch.
        """
        counts = dict.fromkeys(self.topology.nodes, 0)
        for pod in self.pods:
            for container in pod.containers:
                for node in nodes_of(self.container_mask(container)):
                    counts[node] += 1
        return counts

    def container_mask(self, container: ContainerUse) -> int:
        known = self.topology.mask
        mask = 0
        for block in container.devices:
            table = self.device_states.get(block.resource, NO_STATE).table
            for device in block.ids:
                state = table.free.get(device)
                mask |= known_mask(block.nodes, known) if state is None else state.mask
        for cpu in container.cpus:
            mask |= self.cpu_masks.get(cpu, 0)
        for memory in container.memory:
            if memory.size_bytes > 0:
                mask |= known_mask(memory.nodes, known)
        return mask

    def age_seconds(self, now_seconds: float) -> float:
        return max(0.0, now_seconds - self.taken_at_seconds)

    def _states_of(self, resource: ResourceName) -> Mapping[DeviceId, DeviceState]:
        state = self.device_states.get(resource, NO_STATE)
        found = dict(state.table.free)
        for device in state.in_use:
            used = state.table.used.get(device)
            found[device] = self._unknown(resource, device) if used is None else used
        return found

    def _unknown(self, resource: ResourceName, device: DeviceId) -> DeviceState:
        mask = 0
        for pod in self.pods:
            for container in pod.containers:
                for block in container.devices:
                    if block.resource == resource and device in block.ids:
                        mask |= known_mask(block.nodes, self.topology.mask)
        return DeviceState(mask=mask, healthy=False, allocated=True)


def build_snapshot(
    *,
    topology: NumaTopology,
    allocatable: Allocatable,
    pods: Sequence[PodUse],
    devices: Mapping[ResourceName, Mapping[DeviceId, Device]],
    granted: IdsByResource = NOTHING_HELD,
    offered: IdsByResource = NOTHING_HELD,
    taken_at_seconds: float,
    cache: ContributionCache | None = None,
) -> Snapshot:
    """Build the snapshot of one PodResources List.

    ``devices`` are our own resources: their records decide nodes and health. Other device resources are read
    from ``allocatable``; one of their devices that is allocated but not allocatable is unhealthy, and counts
    in neither figure. ``granted`` are our grants in flight, ``offered`` what the kubelet offers in the call
    being answered: free, whatever the List says. A device of two pods counts once.

    With ``cache`` and the same ``PodUse``, ``devices`` (per resource) and ``allocatable`` objects as before,
    only changed pods are read again. Never raises for invalid values: node ids that the topology does not
    have are no topology, blocks of no size are skipped.
    """
    cache = ContributionCache() if cache is None else cache
    counted = tuple(pods)
    totals = cache.totals(counted)
    listed = totals.devices
    capacity = cache.capacity(topology, allocatable)
    tables = dict(capacity.foreign)
    for resource, own in devices.items():
        tables[resource] = cache.own_table(resource, own, capacity.known)
    nothing: frozenset[DeviceId] = frozenset()
    states: dict[ResourceName, ResourceState] = {}
    for resource in tables.keys() | listed.keys() | granted.keys():
        # Listed ones alone, in nearly every snapshot: then the set is taken as it is.
        in_use = listed.get(resource, nothing)
        if resource in granted:
            in_use |= granted[resource]
        if resource in offered and not in_use.isdisjoint(offered[resource]):
            in_use -= offered[resource]
        states[resource] = cache.state(resource, tables.get(resource, EMPTY_TABLE), in_use)
    tallies = {resource: state.tally for resource, state in states.items()}
    tallies.update(_other_tallies(totals, capacity))
    return Snapshot(
        topology=topology,
        taken_at_seconds=taken_at_seconds,
        pods=counted,
        tallies=tallies,
        device_states=states,
        cpu_masks=capacity.cpu_masks,
        memory_groups=frozenset(
            mask for _, nodes in totals.memory if width(mask := nodes & capacity.known) > 1
        ),
    )


def _other_tallies(totals: Totals, capacity: NodeCapacity) -> Iterator[tuple[ResourceName, Tally]]:
    if totals.cpus or capacity.cpus:
        counts = Counter(map(capacity.cpu_masks.get, totals.cpus))
        yield CPU, tally_of(capacity.cpus, {mask: count for mask, count in counts.items() if mask})
    blocks: dict[ResourceName, list[tuple[int, int]]] = {resource: [] for resource in capacity.memory}
    for (resource, nodes), size_bytes in totals.memory.items():
        mask = nodes & capacity.known
        if mask:
            blocks.setdefault(resource, []).append((mask, size_bytes))
    for resource, found in blocks.items():
        per_node = capacity.memory.get(resource, {})
        yield resource, tally_of(per_node, node_memory(found, per_node))
