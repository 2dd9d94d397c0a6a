"""The offline optimum: the most jobs of a trace that can be aligned if all of it is known in advance.

Jobs arrive in order and never move, as on a node; only knowledge of the future is added. There are two
bounds: one may refuse a job to keep room for others, the other, like a kubelet, takes every job
that some domain has room for and only chooses the domain. The second bounds every placement strategy under
``single-numa-node``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from numaplace.model.names import Amounts

from study.traces import Job
from study.worlds import World

Domain = tuple[int, ...]
"""The jobs in one domain, by rising index."""
State = tuple[Domain, ...]


def optimum(world: World, trace: Sequence[Job], *, may_refuse: bool = True) -> int:
    """Return the largest number of jobs that can be aligned. Exact; meant for a dozen jobs.

    Dynamic programming over the arrivals: of all ways to reach the same jobs in the same domains the one
    with the most jobs is kept. Domains are alike, so their order does not count.
    """
    best: dict[State, int] = {((),) * len(world.groups): 0}
    for number, job in enumerate(trace):
        following: dict[State, int] = {}
        for state, count in best.items():
            here = tuple(_present(trace, domain, job.arrives) for domain in state)
            for then, more in _choices(world, trace, here, number=number, may_refuse=may_refuse):
                following[then] = max(following.get(then, 0), count + more)
        best = _pruned(following, left=len(trace) - number - 1)
    return max(best.values())


def _pruned(states: dict[State, int], *, left: int) -> dict[State, int]:
    """Drop the states that cannot overtake the best one with all jobs that are still to come (the bound)."""
    lead = max(states.values())
    return {state: count for state, count in states.items() if count + left >= lead}


def _choices(
    world: World, trace: Sequence[Job], state: State, *, number: int, may_refuse: bool
) -> Iterator[tuple[State, int]]:
    """Yield the states after the job, and 1 if it is in: in each domain with room, or refused."""
    amounts = trace[number].amounts
    roomy = [place for place, domain in enumerate(state) if _fits(world, trace, domain, amounts)]
    if may_refuse or not roomy:
        yield tuple(sorted(state)), 0
    for place in roomy:
        changed = (*state[:place], (*state[place], number), *state[place + 1 :])
        yield tuple(sorted(changed)), 1


def _present(trace: Sequence[Job], domain: Domain, time: float) -> Domain:
    return tuple(number for number in domain if trace[number].leaves > time)


def _fits(world: World, trace: Sequence[Job], domain: Domain, amounts: Amounts) -> bool:
    size = len(world.groups[0])
    return all(
        sum(trace[other].amounts.get(name, 0) for other in domain) + amount <= size * world.capacity[name]
        for name, amount in amounts.items()
    )


def optimum_by_enumeration(world: World, trace: Sequence[Job], *, may_refuse: bool = True) -> int:
    """Return the same by trying every domain, and none, for every job: for a handful of jobs."""
    places = range(-1, len(world.groups))
    return max(
        sum(place >= 0 for place in plan)
        for plan in product(places, repeat=len(trace))
        if _possible(world, trace, plan, may_refuse=may_refuse)
    )


def _possible(world: World, trace: Sequence[Job], plan: Sequence[int], *, may_refuse: bool) -> bool:
    for number, (job, place) in enumerate(zip(trace, plan, strict=True)):

        def has_room(domain: int, number: int = number, job: Job = job) -> bool:
            before = tuple(other for other in range(number) if plan[other] == domain)
            return _fits(world, trace, _present(trace, before, job.arrives), job.amounts)

        if place >= 0 and not has_room(place):
            return False
        if place < 0 and not may_refuse and any(map(has_room, range(len(world.groups)))):
            return False
    return True
