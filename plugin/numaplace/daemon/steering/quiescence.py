"""When nothing is under admission, and when a List is needed that shows it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from numaplace.daemon.steering.context import SteeringContext
from numaplace.errors import PeerError


class Quiescence:
    """After a burst two Lists are requested; then the poller's own are enough."""

    def __init__(self, context: SteeringContext) -> None:
        self._context = context
        self._times = context.times
        self._clock = context.clock
        self._active_at = self._not_before = self._clock()
        self._expected_at: float | None = None

    def expect(self) -> None:
        """Note that a pod is coming for which the kubelet may not call us first: List shows it soon."""
        if self._expected_at is None:
            self._expected_at = self._clock() + self._times.expected_seconds

    def active(self) -> None:
        self._active_at = self._clock()

    @property
    def busy(self) -> bool:
        return self._clock() - self._active_at < self._times.quiet_seconds

    @property
    def quiet(self) -> bool:
        """Whether the last List shows that nothing is under admission."""
        seen = self._context.state.observation
        return (
            seen is not None
            and seen.taken_at_seconds >= self._active_at + self._times.quiet_seconds
            and not self._context.state.moving
        )

    @property
    def proved(self) -> bool:
        """Whether no pod that may request devices can be under admission, even with a slow vendor plugin."""
        return self.quiet and self._open_until() is None

    @property
    def list_due_seconds(self) -> float | None:
        seen = self._context.state.observation
        if self._expected_at is not None:
            return max(self._expected_at, self._not_before)
        if seen is None or self.quiet:
            return None if seen is None else self._open_until()
        shortly_after, taken_at = self._active_at + self._times.after_activity_seconds, seen.taken_at_seconds
        due = shortly_after if taken_at < shortly_after else taken_at + self._times.quiet_seconds
        return max(due, self._not_before)

    async def ask_for_list(self) -> None:
        due = self.list_due_seconds
        if due is None or due > self._clock():
            return
        self._not_before = self._clock() + self._times.list_retry_seconds
        self._expected_at = None
        with suppress(PeerError):
            await self._context.lists.live(timeout_seconds=self._times.list_seconds)
            self._not_before = self._clock() + self._times.between_lists_seconds

    async def wait(self, wake: asyncio.Event, times: Iterable[float | None]) -> None:
        due = [one for one in times if one is not None]
        seconds = max(min(due) - self._clock(), self._times.least_pause_seconds) if due else None
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await wake.wait()

    def _open_until(self) -> float | None:
        return self._context.state.open_until(self._context.resources(), specs=self._context.specs)
