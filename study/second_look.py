"""A second look at the rows in which steering looks worse than the stock kubelet: many other traces.

The first look makes dozens of comparisons. With intervals of 95 %, one in forty looks worse by chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from numaplace.model.names import Strategy

from study.arms import Arm
from study.experiment import Effort, Progress, run_again
from study.stats import Estimate, paired
from study.steering import Compared

TIMES = 20
"""How many times as many traces."""


@dataclass(frozen=True, slots=True)
class SecondLook:
    """``differences`` are those of steering to the stock kubelet, by measure that looked worse."""

    row: Compared
    traces: int
    differences: Mapping[str, Estimate]


def look_again(
    rows: Iterable[Compared], effort: Effort, progress: Progress | None = None
) -> list[SecondLook]:
    """Play other traces for the rows that look worse. Rows of short traces are left as they are."""
    doubted = [(row, measures) for row in rows if row.optimum is None and (measures := tuple(_worse(row)))]
    cases = [(row.world, row.load, (Arm(row.steering.policy), row.steering)) for row, _ in doubted]
    played = run_again(cases, effort, times=TIMES, progress=progress)
    return [
        SecondLook(
            row=row,
            traces=len(stock),
            differences={
                key: paired([one[key] for one in steering], [one[key] for one in stock]) for key in measures
            },
        )
        for (row, measures), (stock, steering) in zip(doubted, played, strict=True)
    ]


def _worse(row: Compared) -> Iterator[str]:
    """Yield the measures. With ``always`` the user has chosen balance over room for large jobs."""
    if row.steering.always:
        return
    for key in ("admitted", "aligned"):
        if row.higher[key][0].differs_from_zero and row.higher[key][0].mean < 0:
            yield key
    balance = row.higher["imbalance"][0]
    if row.steering.strategy is Strategy.LEAST_ALLOCATED and balance.differs_from_zero and balance.mean > 0:
        yield "imbalance"
