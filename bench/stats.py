"""Figures, limits and verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil


def percentile(samples: Sequence[float], percent: float) -> float:
    """Return the smallest sample that at least ``percent`` of all are no greater than (nearest rank).

    ``ValueError`` without samples, or for a percentage outside (0, 100].
    """
    if not samples or not 0 < percent <= 100:
        raise ValueError(f"no {percent}th percentile of {len(samples)} samples")
    return sorted(samples)[ceil(len(samples) * percent / 100) - 1]


def middle_round(
    samples: Sequence[float], references: Sequence[float], percent: float, *, rounds: int
) -> tuple[float, float]:
    """Return the percentile of samples and of references, of the round with the median ratio.

    Both are cut into ``rounds`` (odd) parts of equal length, in their order. So one disturbance of the
    machine does not decide. ``ValueError`` for too few samples.
    """
    size = len(samples) // rounds
    found = [
        (percentile(samples[at : at + size], percent), percentile(references[at : at + size], percent))
        for at in range(0, size * rounds, size or 1)
    ]
    if not found:
        raise ValueError(f"{len(samples)} samples are not {rounds} rounds")
    return sorted(found, key=lambda pair: pair[0] / pair[1])[len(found) // 2]


@dataclass(frozen=True, slots=True)
class Row:
    """One figure beside its reference, both in ``unit``.

    At most one limit applies: ``max_ratio`` bounds figure / reference, ``max_value`` the figure itself.
    """

    name: str
    unit: str
    value: float
    reference: float
    max_ratio: float | None = None
    max_value: float | None = None

    @property
    def ratio(self) -> float | None:
        """How many times the reference; ``None`` without one (0)."""
        return self.value / self.reference if self.reference else None

    @property
    def passed(self) -> bool | None:
        """Whether the limit is kept; ``None`` for a figure that has no limit."""
        if self.max_ratio is not None:
            return self.ratio is not None and self.ratio <= self.max_ratio
        return None if self.max_value is None else self.value <= self.max_value

    @property
    def limit(self) -> str:
        """The limit in words; empty without one."""
        if self.max_ratio is not None:
            return f"<= {self.max_ratio:g} x"
        return "" if self.max_value is None else f"<= {self.max_value:g} {self.unit}"
