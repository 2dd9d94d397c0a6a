"""Short traces: what the arms reach of the offline optimum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from study.arms import arms_for
from study.fate import Fate
from study.measures import measure
from study.optimum import optimum
from study.play import Record, play
from study.traces import generate
from study.worlds import World

JOBS = 12


@dataclass(frozen=True, slots=True)
class ShortScores:
    """One seed's traces together: aligned jobs of each arm, and of the two optima (``study.optimum``).

    ``reached[arm]`` is the number of traces on which the arm aligned as many jobs as ``takes_all``, or more;
    ``values[arm]`` are the means of its measures.
    """

    traces: int
    aligned: tuple[int, ...]
    reached: tuple[int, ...]
    optimum: int
    takes_all: int
    values: tuple[Mapping[str, float], ...]


def play_short(world: World, load: float, *, seed: int, traces: int) -> ShortScores:
    """Play ``traces`` short traces of one seed under every arm."""
    all_traces = [generate(world, load, seed=seed * traces + number, jobs=JOBS) for number in range(traces)]
    best = [optimum(world, trace) for trace in all_traces]
    takes_all = [optimum(world, trace, may_refuse=False) for trace in all_traces]
    played = [
        [play(world, arm, trace, seed=seed * traces + number) for arm in arms_for(world)]
        for number, trace in enumerate(all_traces)
    ]
    by_arm = list(zip(*([_aligned(one) for one in of_trace] for of_trace in played), strict=True))
    measures = list(zip(*([measure(one) for one in of_trace] for of_trace in played), strict=True))
    return ShortScores(
        traces=traces,
        aligned=tuple(sum(counts) for counts in by_arm),
        reached=tuple(
            sum(count >= bound for count, bound in zip(counts, takes_all, strict=True)) for counts in by_arm
        ),
        optimum=sum(best),
        takes_all=sum(takes_all),
        values=tuple(
            {key: sum(one[key] for one in of_arm) / traces for key in of_arm[0]} for of_arm in measures
        ),
    )


def _aligned(record: Record) -> int:
    return sum(job.fate is Fate.ALIGNED for job in record.jobs)
