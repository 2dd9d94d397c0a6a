"""Tells of an outage of PodResources once, and once of its end."""

from __future__ import annotations

from collections.abc import Callable

from numaplace.daemon.runtime.logs import EventLog

QUIET_SECONDS = 60.0
"""A peer that fails now and then (its rate limit) gets one line in this time."""

_OK = "OK"


class OutageLog:
    """A ``CallObserver`` of List calls. ``clock`` is monotonic, in seconds."""

    def __init__(self, *, log: EventLog, clock: Callable[[], float]) -> None:
        self._log = log
        self._clock = clock
        self._out = False
        self._told_at: float | None = None

    def called(self, method: str, code: str) -> None:
        """Note how a call ended."""
        if method != "List" or (code == _OK) != self._out:
            return
        if code == _OK:
            self._out = False
            self._log.info("PodResources answers again")
        elif self._told_at is None or self._clock() - self._told_at >= QUIET_SECONDS:
            self._out, self._told_at = True, self._clock()
            self._log.warning("PodResources List fails: decisions use the last known state", code=code)
