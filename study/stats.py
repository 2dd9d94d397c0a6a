"""Means over seeds with 95 % confidence intervals (Student's t)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist, fmean, stdev

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and the half width of its confidence interval; the width is 0 for a single value."""

    mean: float
    half_width: float

    @property
    def differs_from_zero(self) -> bool:
        """Whether 0 lies outside the interval."""
        return abs(self.mean) > self.half_width


def estimate(values: Sequence[float]) -> Estimate:
    if len(values) < 2:
        return Estimate(fmean(values), 0.0)
    return Estimate(fmean(values), t_quantile(len(values) - 1) * stdev(values) / sqrt(len(values)))


def paired(values: Sequence[float], baseline: Sequence[float]) -> Estimate:
    """Return the mean difference of two arms on the same traces."""
    return estimate([one - other for one, other in zip(values, baseline, strict=True)])


def t_quantile(freedom: int) -> float:
    """Return the two-sided quantile of Student's t (Abramowitz and Stegun 26.7.5).

    Within 1 % for 4 or more degrees of freedom; the series is too small below.
    """
    x = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    n = freedom
    return (
        x
        + (x**3 + x) / (4 * n)
        + (5 * x**5 + 16 * x**3 + 3 * x) / (96 * n**2)
        + (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / (384 * n**3)
    )
