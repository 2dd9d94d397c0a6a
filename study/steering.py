"""The comparison of steering: a row for each node, policy and strategy; placements side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from numaplace.engine.options import PolicyName
from numaplace.simulate.scenario.records import Create, Enforcement
from numaplace.simulate.simulator.results import Created
from numaplace.simulate.simulator.run import Simulator
from numaplace.steering.decision import Reason

from study.arms import Arm, arms_for, scenario_of
from study.experiment import Result, ShortResult, Values
from study.play import pod_of
from study.short import JOBS
from study.stats import Estimate, estimate, paired
from study.worlds import World

SHOWN = ("admitted", "aligned", "imbalance")
"""The measures that are compared."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One strategy under one policy.

    ``means`` are, by measure, those of a kubelet that picks at random (policy ``none``), the stock kubelet,
    steering on it, and KEP-6007 in it; ``higher`` are the differences of the last two to the stock kubelet.
    ``optimum`` is the most that can be aligned, in percent of all jobs, where it is known. ``off``: steering
    withholds nothing here, for the requests are not as good as one.
    """

    world: World
    load: float
    steering: Arm
    means: dict[str, tuple[float, float, float, float]]
    higher: dict[str, tuple[Estimate, Estimate]]
    optimum: float | None
    off: bool


def compare(results: Sequence[Result], short: Sequence[ShortResult]) -> Iterator[Compared]:
    for result in results:
        yield from _rows(result.world, result.load, result.values, optimum=None)
    for one in short:
        jobs = sum(scores.traces * JOBS for scores in one.scores)
        best = 100 * sum(scores.optimum for scores in one.scores) / jobs
        values = tuple(zip(*(scores.values for scores in one.scores), strict=True))
        yield from _rows(one.world, one.load, values, optimum=best)


def _rows(
    world: World, load: float, values: Sequence[Sequence[Values]], *, optimum: float | None
) -> Iterator[Compared]:
    of_arm = dict(zip(arms_for(world), values, strict=True))
    for arm in of_arm:
        if arm.enforcement is not Enforcement.STEERING:
            continue
        kep = replace(arm, enforcement=Enforcement.KUBELET, always=False)
        four = [of_arm[one] for one in (Arm(PolicyName.NONE), Arm(arm.policy), arm, kep)]
        samples = {key: [[one[key] for one in seeds] for seeds in four] for key in SHOWN}
        yield Compared(
            world=world,
            load=load,
            steering=arm,
            means={key: _four(found) for key, found in samples.items()},
            higher={
                key: (paired(mine, stock), paired(best, stock))
                for key, (_, stock, mine, best) in samples.items()
            },
            optimum=optimum,
            off=is_off(world, arm),
        )


def _four(samples: Sequence[Sequence[float]]) -> tuple[float, float, float, float]:
    random, stock, steering, kep = (estimate(one).mean for one in samples)
    return random, stock, steering, kep


def is_off(world: World, arm: Arm) -> bool:
    """Return whether steering leaves a world's jobs to the kubelet because their sizes differ."""
    simulator = Simulator(scenario_of(world, arm))
    created = simulator.play(Create(pod_of(0, world.requests[0].amounts)), number=1)
    assert isinstance(created, Created)  # noqa: S101 - it was a create step
    refusals = [one for told in created.steering for one in told.decision.refusals]
    return any(one.reason is Reason.SEVERAL_SIZES for one in refusals)
