"""The withheld set where no request is known: it has to be right for every request that may come.

Every number of every device resource, with any CPUs and memory, alone or together: too many to predict one by
one. They are covered by comparing NUMA nodes instead. Take a node x such that for every other node s

    free(x) >= free(s)   of every device resource, of exclusive CPUs, and of every memory type,       (1)

and withhold, of the steerable resources, the free devices of the nodes that the kubelet would take before x.
For devices free(x) counts those that still show topology, and has to reach free(x) without the set as well: a
device of two nodes is hidden with either. Then for every request the kubelet does as well as without:

- Only masks of one node are at stake. Under ``single-numa-node`` no others are admitted. Under
  ``restricted`` it is demanded that of each steerable resource no more is free than some node has in all;
  then every number that can be had at all is preferred on one node only (``minAffinitySize``). Under
  ``best-effort``, where what is not preferred is admitted too, requests that span nodes cannot be covered:
  nothing is withheld.
- A request that node s can hold, x can hold, by (1), also where the amounts are those of a whole pod, since
  sums are compared just the same. x is exposed, so its hints are as before: its free devices all count, and
  one node is the preferred width, of devices since x's own free ones suffice, of CPUs and memory since that
  width does not depend on what is withheld. So x is among the masks that all resources prefer whenever any
  node is, and it is the first of them that is still exposed: the request is admitted, on one node, aligned.
- A request that no node can hold is refused with as without: hints are only taken away, and none becomes
  preferred. Under ``restricted``, a number that shown free devices still satisfy is at most what is free
  without what is withheld, so at most the largest node's devices without its withheld ones: one node stays
  the preferred width.
- A request for none of the steerable resources is not touched.

x is what the strategy wants, for every request, if it beats each s that may hold one, by the scores of every
combination of resources that s has free. Combinations are enumerated (weights of 0 drop out); sizes do not
matter, for scores do not depend on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from numaplace.engine.compare import score_wins
from numaplace.engine.numa import average_distance
from numaplace.engine.options import PolicyName, PolicyOptions
from numaplace.model.names import CPU, MEMORY, ResourceName
from numaplace.prediction.forecast import Budget
from numaplace.prediction.model import KubeletModel
from numaplace.prediction.predict import Withheld
from numaplace.prediction.preferred_masks import PreferredMasks
from numaplace.prediction.state import SteeringState
from numaplace.steering.decision import Reason, Refusal
from numaplace.steering.rules.dominance import Dominance
from numaplace.steering.search import Headroom

COMBINATIONS_PER_PREDICTION = 8
"""How many combinations of scores cost as much as one fast prediction."""


@dataclass(frozen=True, slots=True)
class AnyRequest:
    """The question which node dominates, and whether the strategy wants it."""

    node: KubeletModel
    state: SteeringState
    tables: PreferredMasks
    strategic: PolicyOptions
    kept: Withheld
    headroom: Headroom
    budget: Budget

    @property
    def _dominance(self) -> Dominance:
        return Dominance(self.node, self.state, self.tables)

    def run(self) -> Withheld | Refusal:
        """Return the set, or why there is none."""
        may_span = self._dominance.may_span()
        if may_span is not None:
            return may_span
        order = sorted(self.node.topology.nodes, key=self._rank)
        found = Refusal(Reason.NOT_DOMINANT)
        for position, node in enumerate(order):
            withheld = self._before(order[:position])
            if not self._dominance.covers(node, self.node.topology.nodes, withheld) or not self._is_wanted(
                node
            ):
                continue
            return self._checked(node, withheld)
        return found

    def _rank(self, node: int) -> tuple[float, int]:
        """Sort one-node masks as the kubelet prefers them."""
        measured = self.node.options.prefer_closest and self.node.policy != PolicyName.SINGLE_NUMA_NODE
        return (average_distance(self.node.topology, 1 << node) if measured else 0.0, node)

    def _before(self, nodes: Sequence[int]) -> dict[ResourceName, int]:
        earlier = sum(1 << node for node in nodes)
        free = {one: self.tables.free_nodes(one) & earlier for one in self._dominance.ours}
        return {resource: mask for resource, mask in free.items() if mask}

    def _free(self, resource: ResourceName, node: int) -> int:
        return self._dominance.free(resource, node)

    def _is_wanted(self, x: int) -> bool:
        return all(self._beats(x, node) for node in self.node.topology.nodes if node != x)

    def _beats(self, x: int, other: int) -> bool:
        """Return whether the strategy prefers x for every request that ``other`` can hold."""
        ours = [one for one in self._dominance.ours if self._free(one, other) > 0]
        if not ours:
            return True
        weight_of = self.strategic.weights.of
        names = [
            name for name in (*self.state.devices, *self._dominance.compute) if self._free(name, other) > 0
        ]
        weighted = [name for name in names if weight_of(name) > 0]
        needed = {index for index, name in enumerate(weighted) if name in ours}
        unscored_too = len(needed) < len(ours)
        first = self._rank(x) < self._rank(other)
        self.budget.spend(1 + (1 << len(weighted)) // COMBINATIONS_PER_PREDICTION)
        sums = [
            (
                weight_of(name),
                weight_of(name) * self.tables.score(name, 1 << x),
                weight_of(name) * self.tables.score(name, 1 << other),
            )
            for name in weighted
        ]
        return all(
            self._wins(total, of_x, of_other, first=first)
            for chosen, total, of_x, of_other in _combinations(sums)
            if unscored_too or chosen & needed
        )

    def _wins(self, total: int, of_x: int, of_other: int, *, first: bool) -> bool:
        if not total:
            return first
        by_score = score_wins(self.strategic.strategy, of_x // total, over=of_other // total)
        return first if by_score is None else by_score

    def _checked(self, x: int, withheld: Withheld) -> Withheld | Refusal:
        if not withheld:
            return Refusal(Reason.NOTHING_TO_GAIN, mask=1 << x)
        if any(mask & self.kept.get(resource, 0) for resource, mask in withheld.items()):
            return Refusal(Reason.UNDER_ADMISSION, mask=1 << x)
        compute = set(self._dominance.compute)
        if CPU in compute and self._free(CPU, x) < self.headroom.cpus:
            return Refusal(Reason.HEADROOM, mask=1 << x)
        if MEMORY in compute and self._free(MEMORY, x) < self.headroom.memory_bytes:
            return Refusal(Reason.HEADROOM, mask=1 << x)
        return withheld


def _combinations(
    sums: Sequence[tuple[int, int, int]],
) -> Iterator[tuple[frozenset[int], int, int, int]]:
    """Yield every subset of the resources: their positions, and the sums of weights and weighted scores."""
    found: list[tuple[frozenset[int], int, int, int]] = [(frozenset(), 0, 0, 0)]
    for index, (weight, of_x, of_other) in enumerate(sums):
        found += [(chosen | {index}, total + weight, a + of_x, b + of_other) for chosen, total, a, b in found]
    yield from found
