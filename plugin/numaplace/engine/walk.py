"""The scored pick among structurally equal combinations, as the plain fold makes it, without its product.

The fold keeps a current hint and replaces it by each combination that beats it, in lexicographic order. What
beats what is not an order here: a mask that comes back with another score never replaces itself, and scores
pass over unscored hints. So the fold itself is followed, but only into branches that can change it: per
resource, a table tells which masks the resources behind it can still come to, and with which best sums.

For a strategy that prefers the lowest score, points are negative here, so that greater ones are better.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from numaplace.engine.compare import score_wins
from numaplace.engine.hint import Hint
from numaplace.engine.score import UNSCORED
from numaplace.engine.terms import ANY_KEY, NO_KEY, Aim, Best, Meeting, Sums, Term
from numaplace.model.names import Strategy

Tail = dict[int, Best]
"""What the last resources can come to, per sum of their weights."""


class Goals(NamedTuple):
    """The masks that branches of equal weight can come to, with the best points of each, and of all."""

    weight: int
    greatest: int
    points: Best


class OutOfStepsError(Exception):
    """The fold changes its pick too often to follow it."""


class Walk:
    """One walk over the combinations of ``levels`` that come to a mask of ``aim``, all structurally equal."""

    def __init__(
        self, levels: Sequence[Sequence[Term]], meeting: Meeting, *, aim: Aim, strategy: Strategy
    ) -> None:
        self._meeting, self._aim, self._strategy = meeting, aim, strategy
        self._sign = -1 if strategy is Strategy.LEAST_ALLOCATED else 1
        self._levels = [
            [
                Term(key, self._sign * points, weight)
                for key, points, weight in terms
                if meeting.leads_to(key, aim)
            ]
            for terms in levels
        ]
        # Per tail and weight: the keys by falling points, and the best points of all, which are often enough
        # to leave a branch without its goals.
        self._ordered = [
            [
                (weight, sorted(best.items(), key=lambda item: -item[1]))
                for weight, best in tail.items()
                if best
            ]
            for tail in self._all_tails()
        ]
        self._bounds = [[(weight, best[0][1]) for weight, best in tail] for tail in self._ordered]
        self._goals: list[dict[int, list[Goals]]] = [{} for _ in self._ordered]
        self._steps = 0
        self._mask: int | None = None
        self._score = UNSCORED

    def pick(self, *, preferred: bool, steps: int) -> Hint:
        """Return the hint that the fold ends with; ``preferred`` is that of all the combinations.

        At least one combination must come to one of the masks. ``OutOfStepsError`` if more than ``steps``
        comparisons are needed.
        """
        self._steps = steps
        self._visit(0, ANY_KEY, Sums(0, 0))
        return Hint(self._mask, preferred, self._score)

    def _visit(self, depth: int, key: int, sums: Sums) -> None:
        if depth == len(self._levels):
            self._mask = key & self._aim.default_mask
            self._score = self._score_of(*sums)
            return
        for term in self._levels[depth]:
            met = self._meeting.meet(key, term.key)
            added = Sums(sums.points + term.points, sums.weight + term.weight)
            if met and self._can_change(depth, met, added):
                self._visit(depth + 1, met, added)

    def _can_change(self, depth: int, key: int, sums: Sums) -> bool:
        """Return whether a combination beats the current hint that has this branch up to ``depth``."""
        if not any(self._may_beat(bound, weight, sums) for weight, bound in self._bounds[depth]):
            return False
        found = self._goals[depth].get(key)
        if found is None:
            found = self._goals[depth][key] = self._goals_from(depth, key)
        self._spend(1)
        return any(self._can_beat(goals, sums) for goals in found)

    def _may_beat(self, points: int, weight: int, sums: Sums) -> bool:
        """Return whether the current hint does not win against these points; a tie may be won by mask."""
        if self._mask is None:
            return True
        best_score = self._score_of(sums.points + points, sums.weight + weight)
        return not score_wins(self._strategy, self._score, over=best_score)

    def _can_beat(self, goals: Goals, sums: Sums) -> bool:
        if self._mask is None:
            return True
        if not self._may_beat(goals.greatest, goals.weight, sums):
            return False
        weight = goals.weight + sums.weight
        self._spend(len(goals.points))
        for mask, points in goals.points.items():
            if mask != self._mask:
                score = self._score_of(sums.points + points, weight)
                by_score = score_wins(self._strategy, score, over=self._score)
                if by_score or (by_score is None and mask < self._mask):
                    return True
        return False

    def _score_of(self, points: int, weight: int) -> int:
        return self._sign * points // weight if weight else UNSCORED

    def _spend(self, steps: int) -> None:
        self._steps -= steps
        if self._steps < 0:
            raise OutOfStepsError

    def _goals_from(self, depth: int, key: int) -> list[Goals]:
        """Return what a key can come to; the best keys behind it first, so that most need not be tried."""
        default_mask = self._aim.default_mask
        within = key & default_mask
        reachable = {mask for mask in self._aim.masks if mask & within == mask}
        found = []
        for weight, ordered in self._ordered[depth]:
            goals: Best = {}
            for other, points in ordered:
                mask = self._meeting.meet(key, other) & default_mask
                if mask in reachable and mask not in goals:
                    goals[mask] = points
                    if len(goals) == len(reachable):
                        break
            if goals:
                found.append(Goals(weight, next(iter(goals.values())), goals))
        return found

    def _all_tails(self) -> list[Tail]:
        """Return the tail behind each resource; that of the last one is empty."""
        tails: list[Tail] = [{0: {ANY_KEY: 0}}]
        for terms in reversed(self._levels[1:]):
            tails.append(self._longer(terms, tails[-1]))
        return tails[::-1]

    def _longer(self, terms: Sequence[Term], rest: Tail) -> Tail:
        distinct: dict[tuple[int, int], Term] = {}
        for term in terms:
            at = term.key, term.weight
            distinct[at] = max(distinct.get(at, term), term)
        tail: Tail = {}
        for term in distinct.values():
            for weight, best in rest.items():
                self._meeting.improve(tail.setdefault(term.weight + weight, {}), term, best)
        return {
            weight: {
                key: points
                for key, points in best.items()
                if key != NO_KEY and self._meeting.leads_to(key, self._aim)
            }
            for weight, best in tail.items()
        }
