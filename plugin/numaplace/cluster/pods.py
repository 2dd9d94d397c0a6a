"""The pods of this node as the API server last told them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from contextlib import suppress

from numaplace.cluster.objects import Change, KnownPod
from numaplace.managers.pod import Pod
from numaplace.model.names import PodKey
from numaplace.state.attribution import Specs


class PodStore:
    """Known pods by (namespace, name). On the event loop; what was known stays while the server is away."""

    def __init__(self) -> None:
        self._pods: dict[PodKey, Pod] = {}
        self._terminal: set[PodKey] = set()
        self._changed = asyncio.Event()

    @property
    def specs(self) -> Specs:
        """All of them, as they are now."""
        return Specs(self._pods, self._terminal)

    async def arrived(self, keys: Collection[PodKey], *, timeout_seconds: float) -> None:
        """Return once all these pods are known, at the latest after the time limit."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                while not self._pods.keys() >= set(keys):
                    self._changed.clear()
                    await self._changed.wait()

    def replace(self, pods: Iterable[KnownPod]) -> None:
        """Take in a whole list."""
        found = tuple(pods)
        self._pods = {pod.key: pod.pod for pod in found}
        self._terminal = {pod.key for pod in found if pod.terminal}
        self._changed.set()

    def apply(self, change: Change) -> None:
        """Take in one event of a watch."""
        known = change.pod
        if known is None:
            return
        if not change.deleted:
            self._pods[known.key] = known.pod
            (self._terminal.add if known.terminal else self._terminal.discard)(known.key)
        elif known.key in self._pods and self._pods[known.key].uid == known.pod.uid:
            # A namesake may have come already: only the pod that went is forgotten.
            del self._pods[known.key]
            self._terminal.discard(known.key)
        self._changed.set()
