"""The merge without walking the product of hints: same result as the plain one (``merge.merge``).

What the plain merge needs every combination for, and what is done here instead (see ``terms``):

- candidates: one table per resource of the masks that it and the resources behind it come to, with the sums
  of the first combination of each. The preferred ones are found apart, by looking up equal affinities.
- structural pick: rules 1 to 5 and 7 of ``compare`` are a total order, so it is the best candidate.
- scored pick: it is one of the combinations structurally equal to that; the fold is followed only where it
  changes its pick (see ``walk``).

All of the result is the plain merge's, up to ``Limits``. Beyond them:

- More than ``pairs`` pairs of different masks to meet for one table: all is done by ``superset`` instead.
  Masks, preference, structural pick, and with strategy ``none`` the chosen hint, are still the plain merge's,
  and so are preferred hints' scores. The score of a non-preferred candidate is that of the first hint of each
  resource that contains its mask, which is its first combination's wherever these hints have nothing
  else in common. The scored pick among non-preferred candidates is made from these scores, by rising mask.
- More than ``steps`` steps to follow the scored fold: the pick is made from the candidates, by rising mask.
  The fold changes its pick that often only if scored and unscored combinations come to equally good masks
  again and again.

No user can see the first: it takes more than 10 NUMA nodes, which the kubelet advises against, and then the
kubelet has at least as many combinations to try as there are pairs. The second takes a provider that scores
some of its hints and not others, which no manager of the kubelet does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from numaplace.engine.compare import Criteria, Rule, compare, criteria_for
from numaplace.engine.hint import Hint
from numaplace.engine.merge import Merged, ResourceHints, max_of_min_affinity_counts
from numaplace.engine.options import PolicyOptions
from numaplace.engine.select import conclude
from numaplace.engine.superset import MAX_NODES, first_by_superset
from numaplace.engine.terms import ANY_KEY, Agreement, Aim, Intersection, Meeting, Sums, Table, Term
from numaplace.engine.walk import OutOfStepsError, Walk
from numaplace.model.names import Strategy
from numaplace.model.topology import NumaTopology

AGREEMENT, INTERSECTION = Agreement(), Intersection()


@dataclass(frozen=True, slots=True)
class Limits:
    """How much work exactness may take: pairs to meet, and steps of the scored fold."""

    pairs: int = 2_000_000
    steps: int = 5_000_000


def fast_merge(
    filtered: Sequence[ResourceHints],
    *,
    topology: NumaTopology,
    policy: str,
    options: PolicyOptions,
    limits: Limits = Limits(),
) -> Merged:
    """Return the best merged hint; all nodes, not preferred, if no combination has a common node."""
    merging = _Merging(filtered, topology, options, limits)
    criteria = criteria_for(
        topology, policy, options=options, best_non_preferred=max_of_min_affinity_counts(filtered)
    )
    by_mask = merging.candidates()
    if not by_mask:
        return Merged(Hint(topology.mask, preferred=False), None)
    structural = _fold(by_mask.values(), criteria.structural())
    chosen = merging.chosen(by_mask, structural, criteria)
    return Merged(chosen, conclude(by_mask, chosen=chosen, structural=structural, criteria=criteria))


class _Merging:
    """The steps of one merge over the same offers."""

    def __init__(
        self,
        filtered: Sequence[ResourceHints],
        topology: NumaTopology,
        options: PolicyOptions,
        limits: Limits,
    ) -> None:
        self._filtered, self._topology, self._limits = filtered, topology, limits
        self._weights = [options.weights.of(entry.resource) for entry in filtered]
        self._default_mask = topology.mask
        self._all = self._terms(INTERSECTION)
        self._preferred = self._terms(AGREEMENT)
        self._exact = True

    def candidates(self) -> dict[int, Hint]:
        """Return a hint per merged mask: its first preferred combination, or its first one."""
        table = self._table() if self._default_mask else {}
        by_mask = {mask: Hint(mask, preferred=False, score=sums.score) for mask, sums in table.items()}
        agreed: Table = {ANY_KEY: Sums(0, 0)}
        for terms in reversed(self._preferred):
            agreed = AGREEMENT.first(terms, agreed)
        for key, sums in agreed.items():
            mask = key & self._default_mask
            if mask and not by_mask[mask].preferred:
                by_mask[mask] = Hint(mask, preferred=True, score=sums.score)
        return by_mask

    def chosen(self, by_mask: dict[int, Hint], structural: Hint, criteria: Criteria) -> Hint:
        """Return the scored pick, one of the hints structurally equal to ``structural``."""
        if criteria.strategy is Strategy.NONE:
            return structural
        without_scores = criteria.structural()
        equals = {mask: hint for mask, hint in by_mask.items() if _ties(structural, hint, without_scores)}
        if len(equals) == 1:
            return structural
        by_rising_mask = [equals[mask] for mask in sorted(equals)]
        if not structural.preferred and not self._exact:
            return _fold(by_rising_mask, criteria)
        levels, meeting = self._walked(preferred=structural.preferred)
        aim = Aim(frozenset(equals), (structural.mask or 0).bit_count(), self._default_mask)
        walk = Walk(levels, meeting, aim=aim, strategy=criteria.strategy)
        try:
            return walk.pick(preferred=structural.preferred, steps=self._limits.steps)
        except OutOfStepsError:
            return _fold(by_rising_mask, criteria)

    def _walked(self, *, preferred: bool) -> tuple[Sequence[Sequence[Term]], Meeting]:
        return (self._preferred, AGREEMENT) if preferred else (self._all, INTERSECTION)

    def _terms(self, meeting: Meeting) -> list[list[Term]]:
        return [
            meeting.terms(entry.hints, weight, default_mask=self._default_mask)
            for entry, weight in zip(self._filtered, self._weights, strict=True)
        ]

    def _table(self) -> Table:
        nodes = self._topology.nodes
        table: Table = {self._default_mask: Sums(0, 0)}
        for terms in reversed(self._all):
            pairs = len({term.key for term in terms}) * len(table)
            if pairs > self._limits.pairs and len(nodes) <= MAX_NODES:
                self._exact = False
                return first_by_superset(self._all, nodes=nodes)
            table = INTERSECTION.first(terms, table)
        return table


def _ties(a: Hint, b: Hint, without_scores: Criteria) -> bool:
    """Return whether no rule before the scores separates two hints."""
    return compare(a, b, without_scores).rule in (Rule.SAME_MASK, Rule.LOWEST_ID)


def _fold(hints: Iterable[Hint], criteria: Criteria) -> Hint:
    best: Hint | None = None
    for hint in hints:
        if compare(best, hint, criteria).candidate_wins:
            best = hint
    assert best is not None  # noqa: S101 - no hint of a table has an empty mask
    return best
