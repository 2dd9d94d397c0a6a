"""Generated traces: jobs that arrive at random and leave some time later, the same for every arm."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from numaplace.model.names import Amounts

from study.worlds import World

SIGMA = 1.0


@dataclass(frozen=True, slots=True)
class Job:
    """A job. Times are in mean job durations; ``leaves`` counts if the job is admitted."""

    arrives: float
    leaves: float
    amounts: Amounts


def generate(world: World, load: float, *, seed: int, jobs: int) -> tuple[Job, ...]:
    """Return a trace of Poisson arrivals; the same arguments give the same trace on any machine."""
    rng = random.Random(f"{world.name} {load} {seed}")  # noqa: S311 - a repeatable trace is wanted
    rate = arrivals_per_duration(world, load)
    shares = [request.share for request in world.requests]
    now, trace = 0.0, []
    for _ in range(jobs):
        now += rng.expovariate(rate)
        (request,) = rng.choices(world.requests, shares)
        trace.append(Job(now, now + _duration(rng, lognormal=world.lognormal), request.amounts))
    return tuple(trace)


def arrivals_per_duration(world: World, load: float) -> float:
    """Return the arrival rate that offers ``load`` of the scarcest resource."""
    total = sum(request.share for request in world.requests)

    def mean(resource: str) -> float:
        return (
            sum(s.share * n for s in world.requests for name, n in s.amounts.items() if name == resource)
            / total
        )

    return load * min(world.nodes * amount / mean(name) for name, amount in world.capacity.items())


def _duration(rng: random.Random, *, lognormal: bool) -> float:
    if lognormal:
        return math.exp(rng.gauss(-SIGMA * SIGMA / 2, SIGMA))
    return rng.expovariate(1.0)


def events(trace: Sequence[Job]) -> list[tuple[float, int, int]]:
    """Return (time, 0 to leave or 1 to arrive, the job's index) in order, up to the last arrival."""
    end = trace[-1].arrives if trace else 0.0
    arrivals = [(job.arrives, 1, number) for number, job in enumerate(trace)]
    departures = [(job.leaves, 0, number) for number, job in enumerate(trace) if job.leaves <= end]
    return sorted(arrivals + departures)
