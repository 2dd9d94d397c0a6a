"""Short traces: what the arms reach of the offline optimum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from study.arms import arms_for
from study.fate import Fate
from study.optimum import optimum
from study.play import play
from study.traces import Job, generate
from study.worlds import World

JOBS = 12


@dataclass(frozen=True, slots=True)
class ShortScores:
    """One seed's traces together: aligned jobs of each arm, and of the two optima (``study.optimum``).

    ``reached[arm]`` is the number of traces on which the arm aligned as many jobs as ``takes_all``, or more.
    """

    traces: int
    aligned: tuple[int, ...]
    reached: tuple[int, ...]
    optimum: int
    takes_all: int


def play_short(world: World, load: float, *, seed: int, traces: int) -> ShortScores:
    """Play ``traces`` short traces of one seed under every arm."""
    all_traces = [generate(world, load, seed=seed * traces + number, jobs=JOBS) for number in range(traces)]
    best = [optimum(world, trace) for trace in all_traces]
    takes_all = [optimum(world, trace, may_refuse=False) for trace in all_traces]
    aligned = [_aligned(world, trace, seed=seed * traces + number) for number, trace in enumerate(all_traces)]
    by_arm = list(zip(*aligned, strict=True))
    return ShortScores(
        traces=traces,
        aligned=tuple(sum(counts) for counts in by_arm),
        reached=tuple(
            sum(count >= bound for count, bound in zip(counts, takes_all, strict=True)) for counts in by_arm
        ),
        optimum=sum(best),
        takes_all=sum(takes_all),
    )


def _aligned(world: World, trace: Sequence[Job], *, seed: int) -> list[int]:
    return [
        sum(job.fate is Fate.ALIGNED for job in play(world, arm, trace, seed=seed).jobs)
        for arm in arms_for(world)
    ]
