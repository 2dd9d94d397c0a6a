"""What each pod holds, extracted once per ``PodUse`` object.

One pod of many changes between two Lists, and the reader of the List hands out the same object for a pod that
did not change. So extracts are kept by object identity (comparing or hashing a pod would cost as much as
extracting it) for as long as the pod is listed, and what the pods hold together is kept as running sums. The
plain way is an empty cache; it gives the same values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from numaplace.model.device import Device
from numaplace.model.names import DeviceId, ResourceName
from numaplace.model.podresources import Allocatable, PodUse, ids_by_resource
from numaplace.model.topology import NumaTopology
from numaplace.state.capacity import (
    ALL_NODES,
    DeviceTable,
    NodeCapacity,
    known_mask,
    node_capacity_of,
    own_table,
)
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
    devices = ids_by_resource(block for container in pod.containers for block in container.devices)
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


@dataclass(frozen=True, slots=True)
class Totals:
    """What several pods hold together.

    ``devices`` per resource and ``cpus`` have each id once, also if two pods hold it. ``memory`` has bytes by
    (type, mask).
    """

    devices: Mapping[ResourceName, frozenset[DeviceId]]
    cpus: frozenset[int]
    memory: Mapping[tuple[ResourceName, int], int]


def totals_of(contributions: Iterable[Contribution]) -> Totals:
    sums = _Sums()
    for one in contributions:
        sums.add(one, 1)
    return sums.totals()


class _Sums:
    """Running totals: how many pods hold each device and CPU, and bytes of memory."""

    def __init__(self) -> None:
        self._devices: dict[ResourceName, dict[DeviceId, int]] = {}
        self._cpus: dict[int, int] = {}
        self._memory: dict[tuple[ResourceName, int], int] = {}
        self._frozen: dict[ResourceName, frozenset[DeviceId]] = {}

    def add(self, one: Contribution, sign: int) -> None:
        for resource, ids in one.devices:
            counts = self._devices.setdefault(resource, {})
            _count(counts, ids, sign)
            self._frozen.pop(resource, None)
            if not counts:
                del self._devices[resource]
        _count(self._cpus, one.cpus, sign)
        for resource, mask, size_bytes in one.memory:
            _count_one(self._memory, (resource, mask), sign * size_bytes)

    def totals(self) -> Totals:
        for resource, counts in self._devices.items():
            if resource not in self._frozen:
                self._frozen[resource] = frozenset(counts)
        return Totals(dict(self._frozen), frozenset(self._cpus), dict(self._memory))


_K = TypeVar("_K")


def _count(counts: dict[_K, int], keys: Iterable[_K], sign: int) -> None:
    for key in keys:
        _count_one(counts, key, sign)


def _count_one(counts: dict[_K, int], key: _K, amount: int) -> None:
    after = counts.get(key, 0) + amount
    if after:
        counts[key] = after
    else:
        del counts[key]


@dataclass(slots=True)
class ContributionCache:
    """Keeps what can be reused between snapshots; holds no truth. Owned by the caller, one per kubelet.

    Reuse is by object identity: pass a new mapping when a device changes, never a mutated one. Not safe for
    use by several threads.
    """

    _pods: dict[int, Contribution] = field(default_factory=dict)
    _totals_for: Sequence[PodUse] | None = None
    _sums: _Sums = field(default_factory=_Sums)
    _totals: Totals = field(default_factory=lambda: totals_of(()))
    _capacity_for: tuple[NumaTopology, Allocatable] | None = None
    _capacity: NodeCapacity | None = None
    _tables: dict[ResourceName, tuple[Mapping[DeviceId, Device], int, DeviceTable]] = field(
        default_factory=dict
    )
    _states: dict[ResourceName, ResourceState] = field(default_factory=dict)

    def totals(self, pods: Sequence[PodUse]) -> Totals:
        """Return what ``pods`` hold together, and forget the pods that are not among them.

        Only pods that came or went since the last call are added or taken away. The same object twice in
        ``pods`` counts once.
        """
        if pods is not self._totals_for or not isinstance(pods, tuple):
            # Each extract holds its pod, so that no other object can get the same id while it is kept.
            listed = dict(zip(map(id, pods), pods, strict=True))
            for gone in self._pods.keys() - listed.keys():
                self._sums.add(self._pods.pop(gone), -1)
            for new in listed.keys() - self._pods.keys():
                self._pods[new] = contribution_of(listed[new])
                self._sums.add(self._pods[new], 1)
            self._totals = self._sums.totals()
            self._totals_for = pods
        return self._totals

    def capacity(self, topology: NumaTopology, allocatable: Allocatable) -> NodeCapacity:
        last = self._capacity_for
        if self._capacity is None or last is None or last[0] is not topology or last[1] is not allocatable:
            self._capacity = node_capacity_of(topology, allocatable)
            self._capacity_for = (topology, allocatable)
        return self._capacity

    def own_table(
        self, resource: ResourceName, devices: Mapping[DeviceId, Device], known: int
    ) -> DeviceTable:
        old = self._tables.get(resource)
        if old is not None and old[0] is devices and old[1] == known:
            return old[2]
        table = own_table(devices, known)
        self._tables[resource] = (devices, known, table)
        return table

    def state(self, resource: ResourceName, table: DeviceTable, in_use: frozenset[DeviceId]) -> ResourceState:
        old = self._states.get(resource)
        if old is not None and old.table is table and (old.in_use is in_use or old.in_use == in_use):
            return old
        state = self._states[resource] = ResourceState(table, in_use, table.tally(in_use))
        return state
