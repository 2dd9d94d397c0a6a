"""Plays one trace under one arm, and notes what became of each job."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from numaplace.managers.device_manager import PodUid
from numaplace.managers.devices import PreferredCall
from numaplace.managers.kubelet import Answer
from numaplace.managers.pod import Container, Pod
from numaplace.model.names import CPU, MEMORY, Amounts, DeviceId
from numaplace.simulate.scenario.records import Create, Delete
from numaplace.simulate.simulator.results import Created
from numaplace.simulate.simulator.run import Simulator

from study.arms import Arm, scenario_of
from study.fate import Fate, Room, fate_of
from study.node import Books, Held
from study.traces import Job, events
from study.worlds import World

SOME_MEMORY_BYTES = 1024**3


@dataclass(frozen=True, slots=True)
class Placed:
    """A job's fate.

    ``largest``: it is of the world's largest size that one domain can hold. ``needless``: it was split while
    one domain had room for it.
    """

    fate: Fate
    largest: bool
    needless: bool


@dataclass(slots=True)
class Record:
    """A played trace after its warm-up. The integrals are over ``time``, in mean job durations.

    ``used`` is of the used part of all devices, ``imbalance`` of the difference between the domain with the
    largest and the one with the smallest used part.
    """

    jobs: list[Placed] = field(default_factory=list)
    time: float = 0.0
    used: float = 0.0
    imbalance: float = 0.0


def play(world: World, arm: Arm, trace: Sequence[Job], *, seed: int, warm_up: int = 0) -> Record:
    """Play a trace on an empty node; the first ``warm_up`` jobs fill it and are not counted."""
    player = _Player(world, arm, seed=seed, warm_up=warm_up)
    for time, arrival, number in events(trace):
        player.advance(time)
        if arrival:
            player.arrive(number, trace[number])
        else:
            player.leave(number)
    return player.record


class _Player:
    def __init__(self, world: World, arm: Arm, *, seed: int, warm_up: int) -> None:
        self.record = Record()
        self._world = world
        self._warm_up = warm_up
        self._simulator = Simulator(scenario_of(world, arm), answer=random_answer(f"{world.name} {seed}"))
        self._books = Books(world)
        self._held: dict[int, Held] = {}
        self._now = 0.0
        self._counting = False
        self._step = 0

    def advance(self, time: float) -> None:
        if self._counting:
            used, span = self._books.used(self._world.device), time - self._now
            self.record.time += span
            self.record.used += span * sum(used) / len(used)
            self.record.imbalance += span * (max(used) - min(used))
        self._now = time

    def arrive(self, number: int, job: Job) -> None:
        self._counting = number >= self._warm_up
        room = Room.of(self._books, job.amounts)
        created = self._simulator.play(Create(pod_of(number, job.amounts)), number=self._next())
        assert isinstance(created, Created)  # noqa: S101 - it was a create step
        held = self._books.held(created)
        if created.admitted:
            self._books.take(held)
            self._held[number] = held
        if self._counting:
            fate = fate_of(self._world, job.amounts, created, held=held, room=room)
            largest = job.amounts.get(self._world.device, 0) == self._world.largest
            needless = fate is Fate.SPLIT and room.one_domain
            self.record.jobs.append(Placed(fate, largest, needless))

    def leave(self, number: int) -> None:
        held = self._held.pop(number, None)
        if held is not None:
            self._books.give_back(held)
            self._simulator.play(Delete(_name(number)), number=self._next())

    def _next(self) -> int:
        self._step += 1
        return self._step


def random_answer(seed: str) -> Answer:
    """Return a plugin that prefers devices at random, as a kubelet picks them for a plugin without one."""
    rng = random.Random(seed)  # noqa: S311 - repeatable on purpose

    def answer(call: PreferredCall, _pod: Pod, _container: Container) -> Sequence[DeviceId]:
        rest = [one for one in call.available if one not in call.must_include]
        return (*call.must_include, *rng.sample(rest, call.size - len(call.must_include)))

    return answer


def pod_of(number: int, amounts: Amounts) -> Pod:
    """Return a Guaranteed pod, so that its CPUs are exclusive."""
    asked = {
        MEMORY: SOME_MEMORY_BYTES,
        **{name: 1000 * amount if name == CPU else amount for name, amount in amounts.items()},
    }
    name = _name(number)
    return Pod(PodUid(name), "study", name, (Container("main", requests=asked, limits=asked),))


def _name(number: int) -> str:
    return f"job-{number}"
