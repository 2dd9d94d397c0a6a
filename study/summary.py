"""Results over seeds: means, intervals, and differences from the first arm of the same table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from numaplace.engine.options import PolicyName

from study.arms import POLICIES, Arm, arms_for
from study.experiment import Result, ShortResult, Values
from study.measures import MEASURES
from study.stats import Estimate, estimate, paired


@dataclass(frozen=True, slots=True)
class Row:
    """One arm: each measure's mean over seeds, and its mean difference from the table's first row."""

    arm: Arm
    values: Mapping[str, Estimate]
    differences: Mapping[str, Estimate]


@dataclass(frozen=True, slots=True)
class Table:
    """The arms of one Topology Manager policy in one world under one load; the first one is the baseline."""

    policy: PolicyName
    rows: tuple[Row, ...]


def tables_of(result: Result) -> Iterator[Table]:
    pairs = list(zip(arms_for(result.world), result.values, strict=True))
    for policy in POLICIES:
        mine = [(arm, seeds) for arm, seeds in pairs if arm.policy is policy]
        yield Table(policy, tuple(_row(arm, seeds, baseline=mine[0][1]) for arm, seeds in mine))


def _row(arm: Arm, seeds: Sequence[Values], *, baseline: Sequence[Values]) -> Row:
    values = {one.key: [of_seed[one.key] for of_seed in seeds] for one in MEASURES}
    first = {one.key: [of_seed[one.key] for of_seed in baseline] for one in MEASURES}
    return Row(
        arm,
        {key: estimate(samples) for key, samples in values.items()},
        {key: paired(samples, first[key]) for key, samples in values.items()},
    )


@dataclass(frozen=True, slots=True)
class ShortRow:
    """One arm on short traces, in percent.

    ``of_optimum``: jobs aligned, of those that the optimum aligns. ``reached``: traces on which no one who
    takes every job that fits could have aligned more.
    """

    name: str
    policy: PolicyName | None
    of_optimum: Estimate
    reached: Estimate


def short_rows(result: ShortResult) -> Iterator[ShortRow]:
    """Yield the bound of one who takes every job that fits, then the arms."""
    scores = result.scores
    yield ShortRow(
        "best placement, future known",
        None,
        estimate([100 * one.takes_all / one.optimum for one in scores]),
        Estimate(100.0, 0.0),
    )
    for number, arm in enumerate(arms_for(result.world)):
        yield ShortRow(
            arm.name,
            arm.policy,
            estimate([100 * one.aligned[number] / one.optimum for one in scores]),
            estimate([100 * one.reached[number] / one.traces for one in scores]),
        )
