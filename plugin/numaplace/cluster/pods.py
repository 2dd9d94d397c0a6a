"""The pods of this node that have not ended, as the API server last reported them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress

from numaplace.cluster.objects import Change, KnownPod
from numaplace.managers.admission import TOPOLOGY_AFFINITY_ERROR
from numaplace.managers.device_manager import PodUid
from numaplace.managers.pod import Pod
from numaplace.model.names import PodKey
from numaplace.state.attribution import Specs


class PodStore:
    """Known pods by (namespace, name). On the event loop; known pods stay while the server is unavailable.

    ``on_change`` is called at each change, ``on_refused`` for each pod that the kubelet has refused
    for its NUMA alignment, once, but not for those that were refused before the first list.
    """

    def __init__(
        self,
        *,
        on_change: Callable[[], None] = lambda: None,
        on_refused: Callable[[KnownPod], None] = lambda _: None,
    ) -> None:
        self._on_change = on_change
        self._on_refused = on_refused
        self._refused: set[PodUid] | None = None
        self._pods: dict[PodKey, Pod] = {}
        self._changed = asyncio.Event()

    @property
    def specs(self) -> Specs:
        """All of them, as they are now."""
        return Specs(self._pods)

    async def arrived(self, keys: Collection[PodKey], *, timeout_seconds: float) -> None:
        """Return once all these pods are known, at the latest after the time limit."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                while not self._pods.keys() >= set(keys):
                    self._changed.clear()
                    await self._changed.wait()

    def replace(self, pods: Iterable[KnownPod]) -> None:
        found = tuple(pods)
        self._pods = {pod.key: pod.pod for pod in found if not pod.terminal}
        refused = [pod for pod in found if _is_refused(pod)]
        before, self._refused = self._refused, {pod.pod.uid for pod in refused}
        self._tell(pod for pod in refused if before is not None and pod.pod.uid not in before)

    def apply(self, change: Change) -> None:
        known = change.pod
        if known is None:
            return
        if not change.deleted and not known.terminal:
            self._pods[known.key] = known.pod
        elif known.key in self._pods and self._pods[known.key].uid == known.pod.uid:
            # A pod of the same name may exist already: only the deleted one is dropped.
            del self._pods[known.key]
        refused = self._refused = self._refused or set()
        new = _is_refused(known) and not change.deleted and known.pod.uid not in refused
        if new:
            refused.add(known.pod.uid)
        elif change.deleted:
            refused.discard(known.pod.uid)
        self._tell([known] if new else [])

    def _tell(self, refused: Iterable[KnownPod]) -> None:
        self._changed.set()
        for pod in refused:
            self._on_refused(pod)
        self._on_change()


def _is_refused(known: KnownPod) -> bool:
    return known.terminal and known.reason == TOPOLOGY_AFFINITY_ERROR
