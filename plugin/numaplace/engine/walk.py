"""The scored pick among structurally equal combinations, as the plain fold makes it, without its product.

The fold keeps a current hint and replaces it by each combination that beats it, in lexicographic order. What
beats what is not an order here: a mask that comes back with another score never replaces itself, and scores
pass over unscored hints. So the fold itself is followed, but only into branches that can change it: per
resource, a table tells which masks the resources behind it can still come to, and with which best sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from numaplace.engine.compare import score_wins
from numaplace.engine.hint import Hint
from numaplace.engine.terms import ANY_KEY, Aim, Meeting, Sums, Term
from numaplace.model.names import Strategy


class Goal(NamedTuple):
    """A mask that a branch can come to, with sums that no branch to it of equal weight improves on."""

    mask: int
    points: int
    weight: int


class OutOfStepsError(Exception):
    """The fold changes its mind too often to follow it."""


Tail = dict[int, dict[int, int]]
"""Per key that the last resources can come to, and per weight of them: their best points."""


class Walk:
    """One walk over the combinations of ``levels`` that come to a mask of ``aim``, all structurally equal."""

    def __init__(
        self, levels: Sequence[Sequence[Term]], meeting: Meeting, *, aim: Aim, strategy: Strategy
    ) -> None:
        self._meeting, self._aim, self._strategy = meeting, aim, strategy
        self._levels = [[term for term in terms if meeting.leads_to(term.key, aim)] for terms in levels]
        self._tails = self._all_tails()
        self._goals: list[dict[int, list[Goal]]] = [{} for _ in self._tails]
        self._steps = 0
        self._mask: int | None = None
        self._score = 0

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
            self._mask, self._score = key & self._aim.default_mask, sums.score
            return
        for term in self._levels[depth]:
            met = self._meeting.meet(key, term.key)
            added = Sums(sums.points + term.points, sums.weight + term.weight)
            if met and self._can_change(depth, met, added):
                self._visit(depth + 1, met, added)

    def _can_change(self, depth: int, key: int, sums: Sums) -> bool:
        """Return whether a combination beats the current hint that has this branch up to ``depth``."""
        found = self._goals[depth].get(key)
        if found is None:
            found = self._goals[depth][key] = self._goals_from(depth, key)
        self._steps -= len(found) + 1
        if self._steps < 0:
            raise OutOfStepsError
        points, weight = sums
        for goal in found:
            total = weight + goal.weight
            if self._beats(goal.mask, (points + goal.points) // total if total else 0):
                return True
        return False

    def _beats(self, mask: int, score: int) -> bool:
        if self._mask is None:
            return True
        if mask == self._mask:
            return False
        by_score = score_wins(self._strategy, score, over=self._score)
        return mask < self._mask if by_score is None else by_score

    def _goals_from(self, depth: int, key: int) -> list[Goal]:
        tail, best = self._tails[depth], self._best
        goals: dict[tuple[int, int], int] = {}
        for other in self._meeting.partners(key, tail):
            mask = self._meeting.meet(key, other) & self._aim.default_mask
            if mask in self._aim.masks:
                for weight, points in tail[other].items():
                    at = mask, weight
                    goals[at] = best(goals[at], points) if at in goals else points
        return [Goal(mask, points, weight) for (mask, weight), points in goals.items()]

    def _all_tails(self) -> list[Tail]:
        """Return the tail behind each resource; that of the last one is empty."""
        tails: list[Tail] = [{ANY_KEY: {0: 0}}]
        for terms in reversed(self._levels[1:]):
            tails.append(self._longer(terms, tails[-1]))
        return tails[::-1]

    def _longer(self, terms: Sequence[Term], rest: Tail) -> Tail:
        best = self._best
        distinct: dict[tuple[int, int], int] = {}
        for key, points, weight in terms:
            at = key, weight
            distinct[at] = best(distinct[at], points) if at in distinct else points
        tail: Tail = {}
        for (key, weight), points in distinct.items():
            for other in self._meeting.partners(key, rest):
                met = self._meeting.meet(key, other)
                if not self._meeting.leads_to(met, self._aim):
                    continue
                sums = tail.setdefault(met, {})
                for rest_weight, rest_points in rest[other].items():
                    total, value = weight + rest_weight, points + rest_points
                    sums[total] = best(sums[total], value) if total in sums else value
        return tail

    def _best(self, a: int, b: int) -> int:
        """Return the better of two sums of points of equal weight."""
        return max(a, b) if self._strategy is Strategy.MOST_ALLOCATED else min(a, b)
