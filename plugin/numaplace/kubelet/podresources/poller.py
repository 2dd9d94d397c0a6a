"""The one poller of PodResources, for all resources of the daemon.

- ``run`` lists on an interval, so that there is always a last observation, and keeps the capacity current.
- ``live`` lists for one decision. The List shows the pod under admission only when it was sent after the
  kubelet's call to us began; so a caller never joins a List that is already under way, only one that still
  waits for its turn (for a token, or for one of the few places of calls in flight).
- The kubelet allows all clients of the node together 100 calls per second in bursts of 10, and answers
  ``RESOURCE_EXHAUSTED`` beyond: every call here takes a token of one bucket, set well below that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from numaplace.errors import PeerError
from numaplace.kubelet.podresources.client import PodResources
from numaplace.kubelet.signals import Signal
from numaplace.model.observation import Observation
from numaplace.model.pacing import Backoff, TokenBucket
from numaplace.model.podresources import Allocatable

LIVE_SHARE = 0.5
"""The part of a deadline that a live List may take; the rest is for the decision and the way back."""


@dataclass(frozen=True, slots=True)
class PollerTimes:
    """Intervals and limits of the poller.

    The capacity is read every ``allocatable_interval_seconds``; while it is followed, together with each
    List, but not before ``followed_interval_seconds`` are over.
    """

    interval_seconds: float = 5.0
    allocatable_interval_seconds: float = 60.0
    followed_interval_seconds: float = 1.0
    call_timeout_seconds: float = 5.0
    first_retry_seconds: float = 0.5
    longest_retry_seconds: float = 30.0
    rate_per_second: float = 50.0
    burst: int = 5
    in_flight: int = 2


class Poller:
    """Shares one ``PodResources`` client. ``clock`` is monotonic, in seconds.

    ``on_observation`` is called with each newer observation, never with an older one than before.
    """

    def __init__(
        self,
        source: PodResources,
        *,
        clock: Callable[[], float],
        on_observation: Callable[[Observation], None] = lambda _: None,
        times: PollerTimes | None = None,
    ) -> None:
        self._source = source
        self._clock = clock
        self._on_observation = on_observation
        self._times = times or PollerTimes()
        self._bucket = TokenBucket(
            rate_per_second=self._times.rate_per_second, burst=self._times.burst, now_seconds=clock()
        )
        self._latest: Observation | None = None
        self._tasks: set[asyncio.Task[Observation | PeerError]] = set()
        self._unsent: asyncio.Task[Observation | PeerError] | None = None
        self._in_flight = 0
        self._place_free = Signal()
        self._wake = asyncio.Event()
        self._failing = False
        self._allocatable: Allocatable | None = None
        self._allocatable_asked_seconds: float | None = None
        self._allocatable_stale = True
        self._allocatable_refused = False
        self._followed = False

    @property
    def latest(self) -> Observation | None:
        return self._latest

    def refresh_allocatable(self) -> None:
        """Read the capacity and list, now: after a registration, or when published devices changed."""
        self._allocatable_stale = True
        self._wake.set()

    def follow_allocatable(self, *, on: bool) -> None:
        """Read the capacity with each List, or stop: it shows whether others' devices are healthy."""
        self._followed = on

    async def live(self, *, timeout_seconds: float) -> Observation:
        """Return an observation whose List was sent after this call; works without ``run``, too.

        ``PeerError`` with the code of the failure, ``DEADLINE_EXCEEDED`` when it takes longer than the
        caller has; the List continues then and becomes ``latest``.
        """
        task = self._request()
        done, _ = await asyncio.wait({task}, timeout=timeout_seconds)
        if not done:
            raise PeerError(f"no List within {timeout_seconds} s", code="DEADLINE_EXCEEDED")
        if task.cancelled():
            raise PeerError("the poller has stopped", code="CANCELLED")
        result = task.result()
        if isinstance(result, PeerError):
            raise PeerError(str(result), code=result.code) from result
        return result

    async def live_allocatable(self, *, timeout_seconds: float) -> Allocatable:
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._token()
                return await self._source.allocatable(timeout_seconds=timeout_seconds)
        except TimeoutError:
            what = f"no GetAllocatableResources within {timeout_seconds} s"
            raise PeerError(what, code="DEADLINE_EXCEEDED") from None

    async def run(self) -> None:
        times = self._times
        backoff = Backoff(
            first_seconds=times.first_retry_seconds, longest_seconds=times.longest_retry_seconds
        )
        try:
            while True:
                self._wake.clear()
                task = self._request()
                await asyncio.wait({task})
                if isinstance(task.result(), PeerError):
                    await self._pause(backoff.pause())
                    continue
                backoff.reset()
                if self._allocatable_due():
                    await self._refresh()
                await self._until_due()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _request(self) -> asyncio.Task[Observation | PeerError]:
        if self._unsent is None or self._unsent.done():
            # Done: it was cancelled before it was sent, perhaps before its first step.
            self._unsent = task = asyncio.create_task(self._take_turn())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return self._unsent

    async def _take_turn(self) -> Observation | PeerError:
        await self._place_free.until(lambda: self._in_flight < self._times.in_flight or None)
        await self._token()
        self._unsent = None
        self._in_flight += 1
        try:
            observation = await self._observe()
        except PeerError as error:
            self._failing = True
            return error
        finally:
            self._in_flight -= 1
            self._place_free.notify()
        if self._failing:
            # Perhaps another kubelet, with other CPUs reserved and other plugins.
            self._failing = False
            self.refresh_allocatable()
        return observation

    async def _observe(self) -> Observation:
        taken_at_seconds = self._clock()
        listing = self._source.list(timeout_seconds=self._times.call_timeout_seconds)
        first = self._allocatable is None and not self._allocatable_refused
        if first or self._follows_now():
            pods, refreshed = await asyncio.gather(listing, self._refresh(), return_exceptions=True)
            if isinstance(pods, BaseException):
                raise pods
            if isinstance(refreshed, BaseException):
                raise refreshed
            self._allocatable_refused = self._allocatable is None
        else:
            pods = await listing
        observation = Observation(pods, self._allocatable or Allocatable(), taken_at_seconds)
        self._publish(observation)
        return observation

    async def _refresh(self) -> None:
        """Read the capacity; a failure keeps the last one, and the next round tries again."""
        self._allocatable_asked_seconds = self._clock()
        self._allocatable_stale = False
        await self._token()
        try:
            allocatable = await self._source.allocatable(timeout_seconds=self._times.call_timeout_seconds)
        except PeerError:
            self._allocatable_stale = True
            return
        if allocatable != self._allocatable:
            self._allocatable = allocatable
            if self._latest is not None:
                self._publish(replace(self._latest, allocatable=allocatable))

    def _follows_now(self) -> bool:
        asked = self._allocatable_asked_seconds
        least = self._times.followed_interval_seconds
        return self._followed and (asked is None or self._clock() - asked >= least)

    def _allocatable_due(self) -> bool:
        asked = self._allocatable_asked_seconds
        interval = self._times.allocatable_interval_seconds
        return self._allocatable_stale or asked is None or self._clock() - asked >= interval

    def _publish(self, observation: Observation) -> None:
        if self._latest is None or observation.taken_at_seconds >= self._latest.taken_at_seconds:
            self._latest = observation
            self._on_observation(observation)

    async def _token(self) -> None:
        while seconds := self._bucket.take(self._clock()):  # noqa: ASYNC110 - time is what is waited for
            await asyncio.sleep(seconds)

    async def _until_due(self) -> None:
        """Wait for the next round, which is due an interval after the newest observation."""
        while self._latest is not None and not self._wake.is_set():
            age_seconds = self._clock() - self._latest.taken_at_seconds
            if age_seconds >= self._times.interval_seconds:
                return
            await self._pause(self._times.interval_seconds - age_seconds)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
