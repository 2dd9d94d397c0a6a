"""When nothing is under admission, and when a List is needed that shows it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress

from numaplace.daemon.node_state import NodeStateHolder
from numaplace.errors import PeerError
from numaplace.kubelet.podresources.poller import Poller
from numaplace.state.stability import QUIET_SECONDS

AFTER_ACTIVITY_SECONDS = 0.1
"""When a List is asked for after an Allocate: the container has its CPUs and memory by then."""

EXPECTED_SECONDS = 0.05
"""When a List is asked for after the API server has told of a pod: it is admitted within milliseconds."""

LEAST_SECONDS_BETWEEN = 0.2
LIST_SECONDS = 2.0
RETRY_SECONDS = 1.0
LEAST_PAUSE_SECONDS = 0.01


class Quiescence:
    """After a burst two Lists are asked for; then the poller's own are enough.

    ``open_until`` tells until when a pod that Lists show unchanged may be under admission all the same.
    """

    def __init__(
        self,
        keeper: NodeStateHolder,
        poller: Poller,
        *,
        open_until: Callable[[], float | None],
        clock: Callable[[], float],
    ) -> None:
        self._keeper = keeper
        self._poller = poller
        self._open_until = open_until
        self._clock = clock
        self._active_at = clock()
        self._not_before = clock()
        self._expected_at: float | None = None

    def expect(self) -> None:
        """Note that a pod is on its way that will not ask us, or not at first: List shows it soon."""
        if self._expected_at is None:
            self._expected_at = self._clock() + EXPECTED_SECONDS

    def active(self) -> None:
        """Note that a container is under admission."""
        self._active_at = self._clock()

    @property
    def busy(self) -> bool:
        """Whether a container was under admission a moment ago."""
        return self._clock() - self._active_at < QUIET_SECONDS

    @property
    def quiet(self) -> bool:
        """Whether the last List shows that nothing is under admission."""
        seen = self._keeper.now.observation
        return (
            seen is not None
            and seen.taken_at_seconds >= self._active_at + QUIET_SECONDS
            and not self._keeper.now.moving
        )

    @property
    def proved(self) -> bool:
        """Whether no pod that may ask for devices is left under admission, by a slow plugin of a vendor."""
        return self.quiet and self._open_until() is None

    @property
    def list_at_seconds(self) -> float | None:
        """When a List is needed that the poller would not ask for by itself so soon."""
        seen = self._keeper.now.observation
        if self._expected_at is not None:
            return max(self._expected_at, self._not_before)
        if seen is None or self.quiet:
            return None if seen is None else self._open_until()
        shortly_after = self._active_at + AFTER_ACTIVITY_SECONDS
        taken_at = seen.taken_at_seconds
        return max(shortly_after if taken_at < shortly_after else taken_at + QUIET_SECONDS, self._not_before)

    async def ask_for_list(self) -> None:
        """Ask for a List, if it is time; what it shows comes by way of the keeper."""
        due = self.list_at_seconds
        if due is None or due > self._clock():
            return
        self._not_before = self._clock() + RETRY_SECONDS
        self._expected_at = None
        with suppress(PeerError):
            await self._poller.live(timeout_seconds=LIST_SECONDS)
            self._not_before = self._clock() + LEAST_SECONDS_BETWEEN

    async def wait(self, wake: asyncio.Event, times: Iterable[float | None]) -> None:
        """Wait until something has happened, or the earliest of these times has come."""
        due = [one for one in times if one is not None]
        seconds = max(min(due) - self._clock(), LEAST_PAUSE_SECONDS) if due else None
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await wake.wait()
