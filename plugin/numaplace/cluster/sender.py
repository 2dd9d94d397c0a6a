"""Sends Events, one at a time, slowly, from a bounded queue: ``put`` never waits.

A node may send ``BURST`` at once and then one in ``REFILL_SECONDS``: a burst of pods gets its Events, and a
crash loop of placements does not flood the API server. What cannot be sent is retried with pauses, and
dropped when it is old: the log has the same information, and more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from urllib.parse import quote

from numaplace.cluster.client import CONFLICT, UNAVAILABLE, ApiClient
from numaplace.cluster.events import Note, event_object
from numaplace.errors import PeerError
from numaplace.model.pacing import Backoff, TokenBucket

BURST: Final = 25
REFILL_SECONDS: Final = 2.0
MAX_WAITING: Final = 256
GIVEN_UP_AFTER_SECONDS: Final = 600.0
FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 60.0

REFUSALS: Final = 3
"""This many refusals in a row are retried: a server that has just started has no roles yet."""

SENT, DUPLICATE, FAILED, DROPPED = "sent", "duplicate", "failed", "dropped"
_FORBIDDEN = "403"
_PASSING = frozenset({UNAVAILABLE, "401", "429", "500", "502", "503", "504", "CREDENTIALS"})


@dataclass(frozen=True, slots=True)
class SenderClocks:
    """``monotonic`` is in seconds, ``wall`` a time with a zone; ``chance`` gives numbers from 0 to 1."""

    monotonic: Callable[[], float]
    wall: Callable[[], datetime]
    chance: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class EventSender:
    """``counted`` gets the result of each note (``sent`` …), ``failed`` the error of one not sent."""

    def __init__(
        self,
        client: ApiClient,
        node_name: str,
        *,
        clocks: SenderClocks,
        counted: Callable[[str], None],
        failed: Callable[[PeerError], None],
    ) -> None:
        self._client = client
        self._node_name = node_name
        self._clocks = clocks
        self._counted = counted
        self._failed = failed
        self._waiting: asyncio.Queue[tuple[Note, float, datetime]] = asyncio.Queue(MAX_WAITING)
        self._refusals = 0
        self._bucket = TokenBucket(
            rate_per_second=1 / REFILL_SECONDS, burst=BURST, now_seconds=clocks.monotonic()
        )

    def put(self, note: Note) -> None:
        """Queue a note; if the queue is full, it is dropped and counted."""
        try:
            self._waiting.put_nowait((note, self._clocks.monotonic(), self._clocks.wall()))
        except asyncio.QueueFull:
            self._counted(DROPPED)

    async def run(self) -> None:
        while True:
            note, since, at = await self._waiting.get()
            await self._take_turn()
            self._counted(await self._deliver(note, since, at))

    async def _take_turn(self) -> None:
        while seconds := self._bucket.take(self._clocks.monotonic()):
            await self._clocks.sleep(seconds)

    async def _deliver(self, note: Note, since: float, at: datetime) -> str:
        path = f"/api/v1/namespaces/{quote(note.namespace, safe='')}/events"
        event = event_object(note, node_name=self._node_name, at=at)
        backoff = Backoff(
            first_seconds=FIRST_PAUSE_SECONDS,
            longest_seconds=LONGEST_PAUSE_SECONDS,
            chance=self._clocks.chance,
        )
        while True:
            try:
                await self._client.request("POST", path, body=event)
            except PeerError as error:
                if error.code == CONFLICT:
                    return DUPLICATE
                if error.code == _FORBIDDEN and self._refusals < REFUSALS:
                    self._refusals += 1
                else:
                    self._failed(error)
                    old = self._clocks.monotonic() - since > GIVEN_UP_AFTER_SECONDS
                    if old or error.code not in _PASSING:
                        return FAILED
            else:
                self._refusals = 0
                return SENT
            await self._clocks.sleep(backoff.pause())
