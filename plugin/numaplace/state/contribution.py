"""What each pod holds, extracted once per ``PodUse`` object.

One pod of many changes between two Lists, and the reader of the List hands out the same object for a pod that
did not change. So extracts are kept by object identity (comparing or hashing a pod would cost as much as
extracting it) for as long as the pod is listed. The plain way is an empty cache; it gives the same values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from numaplace.model.device import Device
from numaplace.model.names import DeviceId, ResourceName
from numaplace.model.podresources import Allocatable, PodUse
from numaplace.model.topology import NumaTopology
from numaplace.state.capacity import ALL_NODES, Capacity, DeviceTable, capacity_of, known_mask, own_table
from numaplace.state.usage import Tally


@dataclass(frozen=True, slots=True)
class Contribution:
    """One pod's device ids per resource, exclusive CPUs, and memory as (type, mask, bytes).

    It does not depend on the topology: masks may hold nodes that the topology lacks.
    """

    pod: PodUse
    devices: tuple[tuple[ResourceName, frozenset[DeviceId]], ...]
    cpus: frozenset[int]
    memory: tuple[tuple[ResourceName, int, int], ...]


def contribution_of(pod: PodUse) -> Contribution:
    """Extract a pod. Pod-level CPUs and memory include the containers' (``server_v1.go``, GetPodCPUs)."""
    devices: dict[ResourceName, set[DeviceId]] = {}
    for container in pod.containers:
        for block in container.devices:
            devices.setdefault(block.resource, set()).update(block.ids)
    pod_level = {block.type for block in pod.memory}
    inner = (
        block for container in pod.containers for block in container.memory if block.type not in pod_level
    )
    return Contribution(
        pod=pod,
        devices=tuple((resource, frozenset(ids)) for resource, ids in devices.items()),
        cpus=pod.cpus.union(*(container.cpus for container in pod.containers)),
        memory=tuple(
            (block.type, known_mask(block.nodes, ALL_NODES), block.size_bytes)
            for block in (*pod.memory, *inner)
            if block.size_bytes > 0
        ),
    )


@dataclass(frozen=True, slots=True)
class ResourceState:
    """One device resource: its table, the ids in use, and the tally of both."""

    table: DeviceTable
    in_use: frozenset[DeviceId]
    tally: Tally


@dataclass(slots=True)
class ContributionCache:
    """Keeps what can be reused between snapshots; holds no truth. Owned by the caller, one per kubelet.

    Reuse is by object identity: pass a new mapping when a device changes, never a mutated one. Not safe for
    use by several threads.
    """

    _pods: dict[int, Contribution] = field(default_factory=dict)
    _listed_for: Sequence[PodUse] | None = None
    _contributions: tuple[Contribution, ...] = ()
    _listed: dict[ResourceName, frozenset[DeviceId]] = field(default_factory=dict)
    _capacity_for: tuple[NumaTopology, Allocatable] | None = None
    _capacity: Capacity | None = None
    _tables: dict[ResourceName, tuple[Mapping[DeviceId, Device], int, DeviceTable]] = field(
        default_factory=dict
    )
    _states: dict[ResourceName, ResourceState] = field(default_factory=dict)

    def contributions(self, pods: Sequence[PodUse]) -> tuple[Contribution, ...]:
        """Return the extracts of ``pods``, in their order, and forget the pods that are not among them."""
        if pods is not self._listed_for or not isinstance(pods, tuple):
            kept = self._pods
            found = []
            for pod in pods:
                old = kept.get(id(pod))
                found.append(old if old is not None else contribution_of(pod))
            # Each extract holds its pod, so that no other object can get the same id while it is kept.
            self._pods = {id(one.pod): one for one in found}
            self._contributions = tuple(found)
            self._listed = _union(self._contributions)
            self._listed_for = pods
        return self._contributions

    def listed(self, pods: Sequence[PodUse]) -> Mapping[ResourceName, frozenset[DeviceId]]:
        """Return the device ids that ``pods`` hold, per resource; one that two pods hold is there once."""
        self.contributions(pods)
        return self._listed

    def capacity(self, topology: NumaTopology, allocatable: Allocatable) -> Capacity:
        """Return the index of the same topology and Allocatable objects."""
        last = self._capacity_for
        if self._capacity is None or last is None or last[0] is not topology or last[1] is not allocatable:
            self._capacity = capacity_of(topology, allocatable)
            self._capacity_for = (topology, allocatable)
        return self._capacity

    def own_table(
        self, resource: ResourceName, devices: Mapping[DeviceId, Device], known: int
    ) -> DeviceTable:
        """Return the index of the same mapping of devices."""
        old = self._tables.get(resource)
        if old is not None and old[0] is devices and old[1] == known:
            return old[2]
        table = own_table(devices, known)
        self._tables[resource] = (devices, known, table)
        return table

    def state(self, resource: ResourceName, table: DeviceTable, in_use: frozenset[DeviceId]) -> ResourceState:
        """Return the state of a resource; the last one, with its answers, if nothing of it changed."""
        old = self._states.get(resource)
        if old is not None and old.table is table and old.in_use == in_use:
            return old
        state = self._states[resource] = ResourceState(table, in_use, table.tally(in_use))
        return state


def _union(contributions: Sequence[Contribution]) -> dict[ResourceName, frozenset[DeviceId]]:
    parts: dict[ResourceName, list[frozenset[DeviceId]]] = {}
    for one in contributions:
        for resource, ids in one.devices:
            parts.setdefault(resource, []).append(ids)
    return {resource: frozenset().union(*sets) for resource, sets in parts.items()}
