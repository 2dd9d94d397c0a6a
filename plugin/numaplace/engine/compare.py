"""Which of two merged hints is better, and by which rule.

Follows kubelet ``HintMerger.compare`` and ``compareNumaAffinityMasks`` with the score step of KEP-6007
("Allocation-Aware Policy Options"). The ladder, first rule that separates the two:

1. an empty mask never wins;
2. preferred beats non-preferred;
3. of two non-preferred hints of different width, the width nearer to the best non-preferred affinity count
   (the widest of the providers' narrowest offers) wins, and a width up to that count beats one above it;
4. of two hints with the same mask the current one stays;
5. the narrower mask wins; with ``prefer-closest-numa-nodes``, of equally wide ones the closer one;
6. structurally equal, both scored, scores differ: the strategy decides;
7. otherwise the lower node ids win.

Rules 1 to 5 and 7 alone are a total order: a fold over them does not depend on the order of the hints.
Rule 6 passes over unscored hints, so a mix of scored and unscored hints can form a cycle (a beats b by
score, b beats c by lower ids, c beats a by lower ids). Only then does the order of the hints count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache, partial
from typing import NamedTuple

from numaplace.engine.hint import Hint
from numaplace.engine.numa import average_distance
from numaplace.engine.options import PolicyName, PolicyOptions
from numaplace.model.names import Strategy
from numaplace.model.topology import NumaTopology


class Rule(StrEnum):
    """What separated two hints; ``explain``, Events and logs show these values."""

    NO_CANDIDATE = "no-candidate"
    ONLY_CANDIDATE = "only-candidate"
    EMPTY = "empty"
    PREFERRED = "preferred"
    BEST_NON_PREFERRED = "best-non-preferred"
    SAME_MASK = "same-mask"
    NARROWEST = "narrowest"
    CLOSEST = "closest"
    SCORE = "score"
    LOWEST_ID = "lowest-id"


class Verdict(NamedTuple):
    """Whether the candidate replaces the current hint, and the rule that says so."""

    candidate_wins: bool
    rule: Rule


_TAKE = Verdict(candidate_wins=True, rule=Rule.BEST_NON_PREFERRED)
_KEEP = Verdict(candidate_wins=False, rule=Rule.BEST_NON_PREFERRED)


@dataclass(frozen=True, slots=True)
class Criteria:
    """What a comparison needs besides the two hints.

    ``distance`` returns the average distance of a mask; ``None`` where distances are ignored.
    """

    best_non_preferred: int
    strategy: Strategy = Strategy.NONE
    distance: Callable[[int], float] | None = None

    def structural(self) -> Criteria:
        return replace(self, strategy=Strategy.NONE)


def criteria_for(
    topology: NumaTopology, policy: str, *, options: PolicyOptions, best_non_preferred: int
) -> Criteria:
    """Return the criteria of a policy; distances have no effect under ``single-numa-node`` (KEP-3545).

    A mask's distance is computed once per criteria.
    """
    measured = options.prefer_closest and policy != PolicyName.SINGLE_NUMA_NODE
    distance = cache(partial(average_distance, topology)) if measured else None
    return Criteria(best_non_preferred, options.strategy, distance)


def compare(current: Hint | None, candidate: Hint, criteria: Criteria) -> Verdict:
    """Compare the best hint so far (``None`` before the first) with a candidate.

    Both are merged hints, so their masks are numbers; a missing mask reads as an empty one.
    """
    if not candidate.mask:
        return Verdict(candidate_wins=False, rule=Rule.EMPTY)
    if current is None or not current.mask:
        return Verdict(candidate_wins=True, rule=Rule.ONLY_CANDIDATE)
    if current.preferred != candidate.preferred:
        return Verdict(candidate.preferred, Rule.PREFERRED)
    if current.preferred:
        return _compare_masks(current, candidate, criteria)
    return _compare_non_preferred(current, candidate, criteria)


def _compare_non_preferred(current: Hint, candidate: Hint, criteria: Criteria) -> Verdict:
    """Move to the best non-preferred affinity count from below, and to no mask wider than it.

    With n the width of the current mask, m the candidate's, and b the best count:

    1. n > b: the fitter one, which is the narrower one if m is not n;
    2. n = b: keep n, unless m = b and the candidate is fitter;
    3. n < b:
       a. m > b: keep n;
       b. m = b: take m;
       c. m < b: ca. m > n: take m; cb. m < n: keep n; cc. m = n: the fitter one.
    """
    best = criteria.best_non_preferred
    n, m = (current.mask or 0).bit_count(), (candidate.mask or 0).bit_count()
    # Cases 1 and 2 with equal widths, case 3cc
    if n == m:
        return _compare_masks(current, candidate, criteria)
    # Case 1
    if n > best:
        return _TAKE if m < n else _KEEP
    # Case 2
    if n == best:
        return _KEEP
    # Case 3a
    if m > best:
        return _KEEP
    # Case 3b
    if m == best:
        return _TAKE
    # Cases 3ca and 3cb
    return _TAKE if m > n else _KEEP


def _compare_masks(current: Hint, candidate: Hint, criteria: Criteria) -> Verdict:
    """Compare two hints of equal preference: the fitter one, else the strategy's, else the lower ids."""
    a, b = current.mask or 0, candidate.mask or 0
    if a == b:
        return Verdict(candidate_wins=False, rule=Rule.SAME_MASK)
    if a.bit_count() != b.bit_count():
        return Verdict(b.bit_count() < a.bit_count(), Rule.NARROWEST)
    if criteria.distance is not None:
        distance_a, distance_b = criteria.distance(a), criteria.distance(b)
        if distance_a != distance_b:
            return Verdict(distance_b < distance_a, Rule.CLOSEST)
    by_score = score_wins(criteria.strategy, candidate.score, over=current.score)
    return Verdict(b < a, Rule.LOWEST_ID) if by_score is None else Verdict(by_score, Rule.SCORE)


def score_wins(strategy: Strategy, score: int, *, over: int) -> bool | None:
    """Return whether a score beats another one; ``None`` where scores do not decide.

    They do not without a strategy, between equal scores, and for an unscored hint.
    """
    if strategy is Strategy.NONE or score <= 0 or over <= 0 or score == over:
        return None
    return _BETTER_SCORE[strategy](score, over)


_BETTER_SCORE: dict[Strategy, Callable[[int, int], bool]] = {
    Strategy.MOST_ALLOCATED: int.__gt__,
    Strategy.LEAST_ALLOCATED: int.__lt__,
}
