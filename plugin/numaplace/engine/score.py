"""Utilization scores (KEP-6007, "Topology Hint Score Plumbing" and "Per-Resource Weights").

A score is a whole percentage of what is allocatable, 1 to 100. The floor of 1 keeps 0 free to mean
"no signal": a provider without a score must not pull an average towards "empty".
"""

from __future__ import annotations

from collections.abc import Iterable

from numaplace.engine.hint import Hint
from numaplace.engine.weights import Weights
from numaplace.model.names import ResourceName

UNSCORED = 0


def utilization_score(allocatable: int, assigned: int) -> int:
    """Return how full a NUMA node set is: 1 to 100, or 0 where nothing is allocatable.

    Both are in one unit of the caller's choice: exclusive CPUs, bytes or devices.
    """
    if allocatable <= 0:
        return UNSCORED
    return max(1, assigned * 100 // allocatable)


def weighted_mean(scores: Iterable[tuple[int, int]]) -> int:
    """Return the mean of (score, weight) pairs, rounded down; 0 if the weights are 0 together."""
    total = applied = 0
    for score, weight in scores:
        total += weight * score
        applied += weight
    return total // applied if applied else UNSCORED


def aggregate(scored: Iterable[tuple[ResourceName, Hint]], weights: Weights) -> int:
    """Return the weighted mean of the hints' scores, rounded down; 0 if none of them counts.

    A hint counts if it has an affinity, a score above 0 and a weight above 0. The divisor is the sum of the
    weights that count, so that only their ratios matter and the result stays within the scores' range.
    """
    return weighted_mean(
        (hint.score, weights.of(resource))
        for resource, hint in scored
        if hint.mask is not None and hint.score > 0
    )
