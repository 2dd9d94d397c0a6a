"""List, then watch, the pods that are bound to one node (as client-go's Reflector does).

- The first list may come from the server's cache (``resourceVersion=0``): 5,000 nodes that start at once do
  not reach etcd. After 410 Gone it is a consistent one, since the cache was what was too old.
- A watch goes on where it or a bookmark left off; only 410 Gone leads to a new list.
- After each failure a longer pause, with jitter: the nodes of a cluster must not reconnect all at once.
  Without permission to watch the pauses are longest: it may be granted later. One refusal proves
  nothing: a server that has just started refuses all clients until it has loaded its roles.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from numaplace.cluster.client import MAX_REASON_LENGTH, ApiClient
from numaplace.cluster.objects import read_change, read_list
from numaplace.cluster.pods import PodStore
from numaplace.errors import PeerError
from numaplace.model.pacing import Backoff

PODS = "/api/v1/pods"
GONE = "410"
OK = "OK"
DECODE = "DECODE"
NOT_PERMITTED = frozenset({"401", "403"})


@dataclass(frozen=True, slots=True)
class WatchTimes:
    """Seconds. A watch ends after ``watch`` to twice that; a server silent for ``silence`` is gone.

    The server sends a bookmark about once a minute. Pauses grow from ``first_pause`` to one of the others.
    """

    watch: float = 300.0
    silence: float = 150.0
    first_pause: float = 1.0
    longest_pause: float = 60.0
    not_permitted_pause: float = 300.0


@dataclass(frozen=True, slots=True)
class WatchObserver:
    """Callbacks.

    ``called``: each list and watch (``list``, ``watch``) with its code, ``OK`` or as in ``PeerError``;
    ``connected`` and ``ended``: a watch's begin and end; ``failed``: an error.
    """

    called: Callable[[str, str], None]
    connected: Callable[[], None]
    ended: Callable[[], None]
    failed: Callable[[PeerError], None]


class PodWatch:
    """Keeps ``store`` up to date. ``chance`` gives numbers from 0 to 1."""

    def __init__(
        self,
        client: ApiClient,
        node_name: str,
        *,
        store: PodStore,
        observer: WatchObserver,
        chance: Callable[[], float],
        times: WatchTimes | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._selector = {"fieldSelector": f"spec.nodeName={node_name}"}
        self._store = store
        self._observer = observer
        self._chance = chance
        self._times = times or WatchTimes()
        self._sleep = sleep
        self._version = ""
        self._from_cache = True

    async def run(self) -> None:
        clock = asyncio.get_running_loop().time
        times = self._times
        backoff = Backoff(
            first_seconds=times.first_pause, longest_seconds=times.longest_pause, chance=self._chance
        )
        refused = False
        while True:
            began, refused_before, refused = clock(), refused, False
            try:
                if not self._version:
                    await self._list()
                await self._watch()
            except PeerError as error:
                refused = error.code in NOT_PERMITTED
                if error.code == GONE:
                    # Not an error: a watch that resumes too late has to list again.
                    self._version, self._from_cache = "", False
                elif not refused or refused_before:
                    self._observer.failed(error)
            # A server that ends each watch at once is treated like one that refuses it.
            if clock() - began > times.longest_pause:
                backoff.reset()
            await self._sleep(backoff.pause(longest_seconds=times.not_permitted_pause if refused else None))

    async def _list(self) -> None:
        cached = {"resourceVersion": "0"} if self._from_cache else {}
        try:
            text = await self._client.request("GET", PODS, query={**self._selector, **cached})
            version, pods = read_list(text)
        except PeerError as error:
            self._observer.called("list", error.code)
            raise
        except ValueError as error:
            self._observer.called("list", DECODE)
            raise PeerError(f"the list of pods cannot be read: {error}", code=DECODE) from error
        self._store.replace(pods)
        self._version, self._from_cache = version, True
        self._observer.called("list", OK)

    async def _watch(self) -> None:
        seconds = self._times.watch * (1 + self._chance())
        query = {
            **self._selector,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(max(1, int(seconds))),
        }
        began = False
        try:
            async with self._client.lines(PODS, query, silence_seconds=self._times.silence) as lines:
                began = True
                self._observer.called("watch", OK)
                self._observer.connected()
                async for line in lines:
                    self._take(line)
        except PeerError as error:
            if not began or error.code in (GONE, DECODE):
                self._observer.called("watch", error.code)
            raise
        finally:
            if began:
                self._observer.ended()

    def _take(self, line: bytes) -> None:
        try:
            change = read_change(line)
        except ValueError as error:
            # What was missed is unknown: list again.
            self._version = ""
            raise PeerError(f"an event of the watch cannot be read: {error}", code=DECODE) from error
        if change.error:
            raise PeerError(f"the watch ended: {change.message[:MAX_REASON_LENGTH]}", code=str(change.error))
        self._store.apply(change)
        self._version = change.version or self._version
