from __future__ import annotations

import asyncio
import contextlib
import itertools
import time

import pytest
from kubelet_side import eventually
from numaplace.errors import PeerError
from numaplace.kubelet.podresources.poller import Poller, PollerTimes
from numaplace.model.podresources import Allocatable, PodUse


class Source:
    """A kubelet whose pods are numbered by the List that shows them."""

    def __init__(self) -> None:
        self.lists = 0
        self.allocatables = 0
        self.times: list[float] = []
        self.gates: dict[int, asyncio.Event] = {}
        self.fail = ""
        self.crash: Exception | None = None
        self.fail_allocatable = ""
        self.capacity = Allocatable(cpus=frozenset({1}))

    async def list(self, *, timeout_seconds):
        self.lists += 1
        self.times.append(time.monotonic())
        number = self.lists
        if gate := self.gates.get(number):
            await gate.wait()
        if self.crash:
            raise self.crash
        if self.fail:
            raise PeerError("told to fail", code=self.fail)
        return (PodUse("default", f"list-{number}"),)

    async def allocatable(self, *, timeout_seconds):
        self.allocatables += 1
        if self.fail_allocatable:
            raise PeerError("told to fail", code=self.fail_allocatable)
        return self.capacity

    async def get(self, namespace, name, *, timeout_seconds):
        raise NotImplementedError

    async def close(self):
        pass


@pytest.fixture
def source() -> Source:
    return Source()


def poller_of(source, *, on_observation=lambda _: None, **times) -> Poller:
    return Poller(source, clock=time.monotonic, on_observation=on_observation, times=PollerTimes(**times))


@contextlib.asynccontextmanager
async def running(poller):
    task = asyncio.create_task(poller.run())
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()


def name_in(observation) -> str:
    return observation.pods[0].name


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_latest_is_none_before_the_first(source):
    assert poller_of(source).latest is None


async def test_live_works_without_run_and_brings_the_capacity(source):
    poller = poller_of(source)
    observation = await poller.live(timeout_seconds=10)
    assert observation.allocatable == source.capacity
    assert poller.latest is observation
    await poller.live(timeout_seconds=10)
    assert source.allocatables == 1


async def test_callers_of_one_moment_share_a_list(source):
    poller = poller_of(source)
    seen = await asyncio.gather(*(poller.live(timeout_seconds=10) for _ in range(20)))
    assert {name_in(one) for one in seen} == {"list-1"}


async def test_a_caller_never_gets_a_list_that_was_sent_before_it_asked(source):
    poller = poller_of(source)
    source.gates[1] = asyncio.Event()
    early = asyncio.create_task(poller.live(timeout_seconds=30))
    await eventually(lambda: source.lists == 1)
    late = await poller.live(timeout_seconds=30)
    assert name_in(late) == "list-2"
    source.gates[1].set()
    assert name_in(await early) == "list-1"


async def test_an_older_list_that_answers_later_does_not_become_the_latest(source):
    seen = []
    poller = poller_of(source, on_observation=lambda one: seen.append(name_in(one)))
    source.gates[1] = asyncio.Event()
    early = asyncio.create_task(poller.live(timeout_seconds=30))
    await eventually(lambda: source.lists == 1)
    await poller.live(timeout_seconds=30)
    source.gates[1].set()
    await early
    assert name_in(poller.latest) == "list-2"
    assert "list-1" not in seen[seen.index("list-2") :]


async def test_while_calls_hang_further_callers_share_the_one_that_waits(source):
    poller = poller_of(source, in_flight=2)
    source.gates = {1: asyncio.Event(), 2: asyncio.Event()}
    first = asyncio.create_task(poller.live(timeout_seconds=30))
    await eventually(lambda: source.lists == 1)
    second = asyncio.create_task(poller.live(timeout_seconds=30))
    await eventually(lambda: source.lists == 2)
    others = [asyncio.create_task(poller.live(timeout_seconds=30)) for _ in range(5)]
    with pytest.raises(PeerError) as caught:
        await poller.live(timeout_seconds=0.05)
    assert caught.value.code == "DEADLINE_EXCEEDED"
    assert source.lists == 2
    source.gates[1].set()
    assert {name_in(await one) for one in others} == {"list-3"}
    source.gates[2].set()
    await asyncio.gather(first, second)


async def test_the_rate_holds_however_many_callers_there_are(source):
    poller = poller_of(source, rate_per_second=100, burst=2)
    end = time.monotonic() + 0.5

    async def caller():
        while time.monotonic() < end:
            await poller.live(timeout_seconds=30)

    started = time.monotonic()
    await asyncio.gather(*(caller() for _ in range(8)))
    lasted = time.monotonic() - started
    assert 3 < source.lists + source.allocatables <= 2 + 100 * lasted + 1


async def test_a_failure_is_raised_and_the_latest_stays(source):
    poller = poller_of(source)
    before = await poller.live(timeout_seconds=10)
    source.fail = "UNAVAILABLE"
    with pytest.raises(PeerError) as caught:
        await poller.live(timeout_seconds=10)
    assert caught.value.code == "UNAVAILABLE"
    assert poller.latest is before


async def test_run_lists_on_its_interval_and_tells_of_each(source):
    seen = []
    poller = Poller(
        source,
        clock=time.monotonic,
        on_observation=lambda one: seen.append(name_in(one)),
        times=PollerTimes(interval_seconds=0.02),
    )
    async with running(poller):
        await eventually(lambda: len(seen) >= 4)
    assert seen[:4] == ["list-1", "list-2", "list-3", "list-4"]


async def test_a_live_list_puts_off_the_next_of_the_interval(source):
    poller = poller_of(source, interval_seconds=1000)
    async with running(poller):
        await eventually(lambda: poller.latest)
        await poller.live(timeout_seconds=10)
        assert source.lists == 2


async def test_run_survives_errors_and_asks_for_the_capacity_again_afterwards(source):
    poller = poller_of(source, interval_seconds=0.01, first_retry_seconds=0.01)
    async with running(poller):
        await eventually(lambda: poller.latest)
        source.fail = "UNAVAILABLE"
        failed_from = source.lists
        await eventually(lambda: source.lists >= failed_from + 3)
        asked = source.allocatables
        source.capacity = Allocatable(cpus=frozenset({1, 2}))
        source.fail = ""
        await eventually(lambda: poller.latest.allocatable == source.capacity)
        assert source.allocatables > asked


async def test_errors_are_retried_ever_more_slowly(source):
    source.fail = "UNAVAILABLE"
    poller = poller_of(source, first_retry_seconds=0.02, longest_retry_seconds=0.08)
    async with running(poller):
        await eventually(lambda: source.lists >= 5)
    gaps = [b - a for a, b in itertools.pairwise(source.times)]
    for gap, least in zip(gaps, (0.02, 0.04, 0.08, 0.08), strict=False):
        assert gap >= least * 0.95


async def test_a_request_refreshes_the_capacity_at_once(source):
    poller = poller_of(source, interval_seconds=1000, allocatable_interval_seconds=1000)
    async with running(poller):
        await eventually(lambda: poller.latest)
        source.capacity = Allocatable(cpus=frozenset({7}))
        poller.refresh_allocatable()
        await eventually(lambda: poller.latest.allocatable == source.capacity)


async def test_a_capacity_that_is_followed_is_as_new_as_the_list(source):
    clock = Clock()
    poller = Poller(source, clock=clock)
    await poller.live(timeout_seconds=10)
    poller.follow_allocatable(on=True)
    for number in (2, 3):
        clock.now += 1.0
        source.capacity = Allocatable(cpus=frozenset({number}))
        assert (await poller.live(timeout_seconds=10)).allocatable == source.capacity
    asked = source.allocatables
    await poller.live(timeout_seconds=10)
    assert source.allocatables == asked, "not with every List of a burst"
    poller.follow_allocatable(on=False)
    clock.now += 1.0
    await poller.live(timeout_seconds=10)
    assert source.allocatables == asked


async def test_a_followed_capacity_that_cannot_be_had_does_not_fail_the_list(source):
    clock = Clock()
    poller = Poller(source, clock=clock)
    before = await poller.live(timeout_seconds=10)
    poller.follow_allocatable(on=True)
    clock.now += 1.0
    source.fail_allocatable = "UNAVAILABLE"
    assert (await poller.live(timeout_seconds=10)).allocatable == before.allocatable


async def test_the_capacity_is_refreshed_on_its_slow_interval(source):
    poller = poller_of(source, interval_seconds=0.01, allocatable_interval_seconds=0.02)
    async with running(poller):
        await eventually(lambda: source.allocatables >= 3)
        assert source.lists >= source.allocatables


async def test_a_kubelet_without_the_capacity_call_is_still_listed(source):
    source.fail_allocatable = "UNIMPLEMENTED"
    poller = poller_of(source)
    observation = await poller.live(timeout_seconds=10)
    assert observation.allocatable == Allocatable()
    await poller.live(timeout_seconds=10)
    assert source.allocatables == 1


async def test_a_capacity_that_cannot_be_had_any_more_stays_as_it_was(source):
    poller = poller_of(source, interval_seconds=0.01, allocatable_interval_seconds=0)
    async with running(poller):
        await eventually(lambda: poller.latest)
        source.fail_allocatable = "UNKNOWN"
        asked = source.allocatables
        await eventually(lambda: source.allocatables > asked + 1)
        assert poller.latest.allocatable == source.capacity


async def test_stopping_fails_those_who_wait(source):
    source.gates = {1: asyncio.Event()}
    poller = poller_of(source)
    async with running(poller):
        await eventually(lambda: source.lists == 1)
        source.gates[2] = asyncio.Event()
        waiting = asyncio.create_task(poller.live(timeout_seconds=30))
        await eventually(lambda: source.lists == 2)
    with pytest.raises(PeerError) as caught:
        await waiting
    assert caught.value.code == "CANCELLED"


@pytest.mark.parametrize("ticks", range(8))
async def test_a_crash_while_a_list_waits_for_its_turn_is_over_with_the_next_run(source, ticks):
    """That List may be cancelled at any moment, before its first step too."""
    poller = poller_of(source)
    source.gates[1] = asyncio.Event()
    run = asyncio.create_task(poller.run())
    await eventually(lambda: source.lists == 1)
    source.crash = RuntimeError("on purpose")
    source.gates[1].set()
    for _ in range(ticks):
        await asyncio.sleep(0)
    asked = asyncio.create_task(poller.live(timeout_seconds=30))
    await asyncio.gather(run, asked, return_exceptions=True)
    source.crash = None
    async with running(poller):
        assert (await poller.live(timeout_seconds=30)).pods
