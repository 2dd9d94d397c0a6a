"""Runs the study: every arm of every world on the same traces, spread over processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TypeVar

from study.arms import Arm, arms_for
from study.measures import measure
from study.play import play
from study.short import ShortScores, play_short
from study.traces import generate
from study.worlds import World

Progress = Callable[[int, int], None]
"""Called with the numbers of finished and of all tasks."""
S = TypeVar("S")
T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is run: seeds, jobs of a trace after its ``warm_up``, short traces per seed, processes."""

    seeds: int = 20
    jobs: int = 400
    warm_up: int = 60
    short_traces: int = 10
    processes: int = 2


QUICK = Effort(seeds=4, jobs=100, warm_up=40, short_traces=3)

Values = Mapping[str, float]
Case = tuple[World, float, tuple[Arm, ...]]
"""A world, its load, and who places its jobs."""


@dataclass(frozen=True, slots=True)
class Result:
    """One world under one load. ``values[arm][seed]`` holds the measures, arms as in ``arms_for``."""

    world: World
    load: float
    values: tuple[tuple[Values, ...], ...]


@dataclass(frozen=True, slots=True)
class ShortResult:
    """One world's short traces, by seed."""

    world: World
    load: float
    scores: tuple[ShortScores, ...]


def run_long(worlds: Iterable[World], effort: Effort, progress: Progress | None = None) -> list[Result]:
    """Play the long traces of the worlds."""
    cases = [(world, load, arms_for(world)) for world in worlds for load in world.loads]
    played = _play_cases(cases, effort, range(effort.seeds), progress=progress)
    return [Result(world, load, values) for (world, load, _), values in zip(cases, played, strict=True)]


def run_again(
    cases: Sequence[Case], effort: Effort, *, times: int, progress: Progress | None = None
) -> list[tuple[tuple[Values, ...], ...]]:
    """Play ``times`` as many other long traces; ``values[arm][seed]`` by case."""
    seeds = range(effort.seeds, effort.seeds * (1 + times))
    return _play_cases(cases, effort, seeds, progress=progress)


def _play_cases(
    cases: Sequence[Case], effort: Effort, seeds: Sequence[int], *, progress: Progress | None
) -> list[tuple[tuple[Values, ...], ...]]:
    tasks = [_Traced(world, load, seed, effort, arms) for world, load, arms in cases for seed in seeds]
    done = _spread(_play_arms, tasks, processes=effort.processes, progress=progress)
    chunks = (done[start : start + len(seeds)] for start in range(0, len(done), len(seeds)))
    return [tuple(zip(*by_seed, strict=True)) for by_seed in chunks]


def run_short(worlds: Iterable[World], effort: Effort, progress: Progress | None = None) -> list[ShortResult]:
    """Play the short traces of the worlds, and find their optima."""
    cases = [(world, load) for world in worlds for load in world.loads]
    tasks = [(world, load, seed, effort) for world, load in cases for seed in range(effort.seeds)]
    done = _spread(_play_short, tasks, processes=effort.processes, progress=progress)
    return [
        ShortResult(world, load, tuple(done[number * effort.seeds : (number + 1) * effort.seeds]))
        for number, (world, load) in enumerate(cases)
    ]


@dataclass(frozen=True, slots=True)
class _Traced:
    world: World
    load: float
    seed: int
    effort: Effort
    arms: tuple[Arm, ...]


def _play_arms(task: _Traced) -> tuple[Values, ...]:
    seed, warm_up = task.seed, task.effort.warm_up
    trace = generate(task.world, task.load, seed=seed, jobs=warm_up + task.effort.jobs)
    return tuple(measure(play(task.world, arm, trace, seed=seed, warm_up=warm_up)) for arm in task.arms)


def _play_short(task: tuple[World, float, int, Effort]) -> ShortScores:
    world, load, seed, effort = task
    return play_short(world, load, seed=seed, traces=effort.short_traces)


def _spread(
    function: Callable[[S], T], tasks: Sequence[S], *, processes: int, progress: Progress | None
) -> list[T]:
    """Return the function's values in the order of the tasks."""
    if processes == 1:
        return [_told(function(task), number, len(tasks), progress) for number, task in enumerate(tasks)]
    with ProcessPoolExecutor(processes) as pool:
        futures = [pool.submit(function, task) for task in tasks]
        for number, _ in enumerate(as_completed(futures)):
            _told(None, number, len(tasks), progress)
        return [future.result() for future in futures]


def _told(value: U, number: int, total: int, progress: Progress | None) -> U:
    if progress is not None:
        progress(number + 1, total)
    return value
