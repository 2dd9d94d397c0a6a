"""Which CPUs a container gets: distributed over NUMA nodes (KEP-2902, ``distribute-cpus-across-numa``).

Reimplements kubelet ``takeByTopologyNUMADistributed``: sets of NUMA nodes are tried by rising width; the
first width at which the CPUs can be split evenly wins, and of its sets the one that leaves the node's NUMA
nodes most evenly filled. CPUs go out in groups of ``group``, which is a core's worth with
``full-pcpus-only``.

Two faults of upstream decide CPUs and are reproduced:

- A set that is kept while the walk goes on may change afterwards. Upstream extends one slice per step of the
  walk; Go doubles its storage at lengths 1, 2, 4, 8, so that a set of four nodes (or six to eight) shares
  storage with the sets that follow it under the same first three (or five) nodes, and ends up as the last of
  these. ``_Kept`` follows that.
- Where no NUMA node can take what remains, upstream loops for ever; here that is an ``AllocationError``.

Where upstream sums in the random order of a Go map, the sums here are in the order of the walk: they may
differ in the last bits, which rounding to thousandths hides.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from numaplace.errors import AllocationError
from numaplace.managers.cpu.accumulator import Accumulator
from numaplace.managers.cpu.assignment import take_by_topology_packed
from numaplace.managers.cpu.refusal import CpuRefusal, endless, too_few
from numaplace.managers.cpu.topology import CpuTopology


@dataclass(frozen=True, slots=True)
class _Ask:
    """The request, and the NUMA nodes in the order of the walk with their free CPUs (bits)."""

    wanted: int
    group: int
    align_by_socket: bool
    numas: Sequence[int]
    free: dict[int, int]

    def whole_groups(self, numa: int) -> int:
        """Return the free CPUs of the NUMA node, rounded down to groups."""
        return self.free[numa].bit_count() // self.group * self.group

    def even_share(self, combo: Sequence[int], *, capped: bool) -> int:
        """Return what each NUMA node of the set gives, in whole groups."""
        share = self.wanted // len(combo) // self.group * self.group
        return min((share, *map(self.whole_groups, combo))) if capped else share


@dataclass(slots=True)
class _Kept:
    """A subset, by positions, that is kept during a walk in order over all subsets of its size."""

    indices: tuple[int, ...] = ()

    def follow(self, walked: tuple[int, ...]) -> None:
        """Change as upstream's kept slice does when the walk comes to ``walked``."""
        if self.indices and walked[: _own(len(walked))] == self.indices[: _own(len(walked))]:
            self.indices = walked


def _own(size: int) -> int:
    """Return how many first members a subset of that size shares its storage with others by."""
    own = 1
    while own < size:
        own *= 2
    return own // 2 + 1 if size > 1 else size


@dataclass(slots=True)
class _Best:
    """The best set so far: what is left unbalanced, whether in one socket, and who gives the remainder."""

    balance: float = math.inf
    in_one_socket: bool = False
    combo: _Kept = field(default_factory=_Kept)
    remainder: tuple[int, ...] = ()


def take_by_topology_distributed(
    topology: CpuTopology,
    available: int,
    *,
    wanted: int,
    group: int = 1,
    spread: bool = False,
    align_by_socket: bool = False,
) -> int:
    """Take ``wanted`` of the ``available`` CPUs (bits), evenly from as few NUMA nodes as can give them so.

    A number that is not a multiple of ``group``, and one that no set of NUMA nodes can split, is taken
    packed. Raises ``AllocationError`` with a reason of ``CpuRefusal``.
    """
    if wanted % group:
        return take_by_topology_packed(topology, available, wanted=wanted, spread=spread)
    acc = Accumulator(topology, available, wanted, spread=spread)
    if acc.satisfied:
        return acc.result
    if acc.failed:
        raise too_few(wanted, available.bit_count())
    numas = acc.sorted_numa()
    ask = _Ask(
        wanted, group, align_by_socket, numas, {numa: acc.free & topology.numa[numa] for numa in numas}
    )
    for size in _widths(acc, group):
        best = _best_of_width(topology, ask, size)
        if best.combo.indices:
            return _carry_out(acc, ask, best, spread=spread)
    return take_by_topology_packed(topology, available, wanted=wanted, spread=spread)


def _widths(acc: Accumulator, group: int) -> Iterable[int]:
    """Return the numbers of NUMA nodes to try (``rangeNUMANodesNeededToSatisfy``)."""
    topology = acc.topology
    groups = (len(topology.details) - 1) // group + 1
    groups_per_numa = (groups - 1) // len(topology.numa) + 1
    groups_needed = (acc.needed - 1) // group + 1
    with_free = sum(1 for bits in topology.numa.values() if bits & acc.free)
    return range((groups_needed - 1) // groups_per_numa + 1, min(groups_needed, with_free) + 1)


def _best_of_width(topology: CpuTopology, ask: _Ask, size: int) -> _Best:
    best = _Best()
    for indices in combinations(range(len(ask.numas)), size):
        best.combo.follow(indices)
        if best.balance == 0 and (not ask.align_by_socket or best.in_one_socket):
            break
        combo = [ask.numas[index] for index in indices]
        outcome = _weigh(ask, combo)
        if outcome is None:
            continue
        balance, remainder = outcome
        in_one_socket = ask.align_by_socket and len(topology.sockets_of(combo)) <= 1
        better = balance < best.balance
        if ask.align_by_socket and in_one_socket != best.in_one_socket:
            better = in_one_socket
        if better:
            best = _Best(balance, in_one_socket, _Kept(indices), remainder)
    return best


def _weigh(ask: _Ask, combo: Sequence[int]) -> tuple[float, tuple[int, ...]] | None:
    """Return how unevenly the NUMA nodes would be left, and who gives the remainder; None if impossible."""
    bits = groups = 0
    for numa in combo:
        bits |= ask.free[numa]
        groups += ask.free[numa].bit_count() // ask.group
    if bits.bit_count() < ask.wanted or groups * ask.group < ask.wanted:
        return None
    share = ask.even_share(combo, capped=ask.align_by_socket)
    if any(ask.free[numa].bit_count() < share for numa in combo):
        return None
    left = {numa: ask.free[numa].bit_count() for numa in ask.numas}
    for numa in combo:
        left[numa] -= share
    remainder = ask.wanted - share * len(combo)
    if remainder == 0:
        return standard_deviation(left.values()), ()
    return _best_remainder(left, combo, remainder=remainder, group=ask.group)


def _best_remainder(
    left: dict[int, int], combo: Sequence[int], *, remainder: int, group: int
) -> tuple[float, tuple[int, ...]]:
    """Return the balance of the best subset to take the remainder from, and that subset as it ends up."""
    givers = [numa for numa in combo if left[numa] >= group]
    best, found = math.inf, _Kept()
    for size in range(len(givers), 0, -1):
        for indices in combinations(range(len(givers)), size):
            if len(found.indices) == size:
                found.follow(indices)
            subset = [givers[index] for index in indices]
            if sum(left[numa] for numa in subset) < remainder:
                continue
            balance = _balance_after(left, subset, remainder=remainder, group=group)
            if balance < best:
                best, found = balance, _Kept(indices)
    return best, tuple(givers[index] for index in found.indices)


def _balance_after(left: dict[int, int], subset: Sequence[int], *, remainder: int, group: int) -> float:
    after = dict(left)
    while remainder > 0:
        before = remainder
        for numa in subset:
            if remainder == 0:
                break
            if after[numa] < group:
                continue
            after[numa] -= group
            remainder -= group
        if remainder == before:
            raise endless(remainder)
    return standard_deviation(after.values())


def _carry_out(acc: Accumulator, ask: _Ask, best: _Best, *, spread: bool) -> int:
    """Take the even shares, then the remainder group by group."""
    combo = [ask.numas[index] for index in best.combo.indices]
    share = ask.even_share(combo, capped=True)
    for numa in combo:
        acc.take(_packed_or_nothing(acc, numa, wanted=share, spread=spread))
    remainder = ask.wanted - share * len(combo)
    while remainder > 0:
        before = remainder
        for numa in best.remainder:
            if remainder == 0:
                break
            if (acc.free & acc.topology.numa[numa]).bit_count() < ask.group:
                continue
            acc.take(_packed_or_nothing(acc, numa, wanted=ask.group, spread=spread))
            remainder -= ask.group
        if remainder == before:
            raise endless(remainder)
    if acc.needed:
        raise AllocationError(
            f"distributing {ask.wanted} CPUs went wrong by {acc.needed}", reason=CpuRefusal.MISCOUNTED
        )
    return acc.result


def _packed_or_nothing(acc: Accumulator, numa: int, *, wanted: int, spread: bool) -> int:
    # Upstream ignores the error of this step; the count at the end finds what is missing.
    free = acc.free & acc.topology.numa[numa]
    try:
        return take_by_topology_packed(acc.topology, free, wanted=wanted, spread=spread)
    except AllocationError:
        return 0


def standard_deviation(counts: Iterable[int]) -> float:
    """Return the population standard deviation, and its mean, rounded to thousandths (k/k #106599)."""
    values = tuple(counts)
    mean = _thousandths(sum(values) / len(values))
    return _thousandths(math.sqrt(sum((value - mean) * (value - mean) for value in values) / len(values)))


def _thousandths(value: float) -> float:
    """Round a value of at least 0 to thousandths, halves up (Go ``math.Round``, not Python's)."""
    scaled = value * 1000
    whole = math.floor(scaled)
    return (whole + 1 if scaled - whole >= 0.5 else whole) / 1000
