"""Allocatable and allocated amounts per set of NUMA nodes.

Every resource is reduced to groups: (mask, allocatable, allocated), one per distinct set of NUMA nodes that
its units belong to. A unit counts for a mask when any of its nodes is in the mask, and it counts once, as in
the kubelet's device manager (``topology_hints.go``, generateDeviceTopologyHints). So the cost of a question
is the number of distinct sets, not of units.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from numaplace.engine.score import utilization_score
from numaplace.model.mask import nodes_of, width

Group = tuple[int, int, int]
"""(mask of NUMA nodes, allocatable, allocated)."""


@dataclass(frozen=True, slots=True)
class Usage:
    """CPUs, bytes or devices of one resource in one set of NUMA nodes.

    ``allocated`` may exceed ``allocatable`` when devices turned unhealthy or reservations grew.
    """

    allocatable: int
    allocated: int

    @property
    def free(self) -> int:
        return max(0, self.allocatable - self.allocated)

    @property
    def score(self) -> int:
        """The utilization score of KEP-6007 (Topology Hint Score Plumbing); 0 without capacity."""
        return utilization_score(self.allocatable, self.allocated)


NO_USAGE = Usage(0, 0)


@dataclass(frozen=True, slots=True)
class DeviceState:
    """One device: the mask of its NUMA nodes (0 without topology), its health, and whether it is in use."""

    mask: int
    healthy: bool
    allocated: bool


@dataclass(frozen=True, slots=True)
class Tally:
    """One resource's groups. Answers are kept, for a decision reads the same masks many times."""

    groups: tuple[Group, ...] = ()
    _known: dict[int, Usage] = field(default_factory=dict, compare=False, repr=False)
    _scores: dict[int, int] = field(default_factory=dict, compare=False, repr=False)

    def usage(self, mask: int) -> Usage:
        found = self._known.get(mask)
        if found is None:
            found = self._known[mask] = Usage(*self._amounts(mask))
        return found

    def score(self, mask: int) -> int:
        found = self._scores.get(mask)
        if found is None:
            found = self._scores[mask] = utilization_score(*self._amounts(mask))
        return found

    def _amounts(self, mask: int) -> tuple[int, int]:
        allocatable = allocated = 0
        for group, capacity, used in self.groups:
            if group & mask:
                allocatable += capacity
                allocated += used
        return allocatable, allocated


def tally_of(capacity: Mapping[int, int], used: Mapping[int, int]) -> Tally:
    """Return the tally of amounts per mask; units without topology (mask 0) belong to no node set."""
    masks = sorted(mask for mask in capacity.keys() | used.keys() if mask)
    return Tally(tuple((mask, capacity.get(mask, 0), used.get(mask, 0)) for mask in masks))


def node_memory(blocks: Iterable[tuple[int, int]], capacity: Mapping[int, int]) -> dict[int, int]:
    """Return the bytes allocated per single-node mask, for blocks of (mask, bytes).

    A block's size belongs to its set of nodes. Blocks of one node come first; each of the others then takes
    what is free on its nodes in ascending order, as the static memory manager does (``policy_static.go``,
    updateMachineState). What exceeds the capacity stays on the last node: nothing allocated is hidden.
    The List has no order, so wider blocks are taken narrow first, then by mask and size.
    """
    used: dict[int, int] = {}
    spread = []
    for mask, size_bytes in blocks:
        if mask & (mask - 1) == 0:
            used[mask] = used.get(mask, 0) + size_bytes
        else:
            spread.append((width(mask), mask, size_bytes))
    for _, mask, size_bytes in sorted(spread):
        left = size_bytes
        nodes = [1 << node for node in nodes_of(mask)]
        for node in nodes:
            part = min(left, max(0, capacity.get(node, 0) - used.get(node, 0)))
            used[node] = used.get(node, 0) + part
            left -= part
        used[nodes[-1]] += left
    return used
