"""After a kubelet's start: it admits its pods again, and they must find their devices' topology.

A container that has devices gets its hints anew, from the topology that is published of just these devices
(device manager, GetTopologyHints). List shows a pod only once the kubelet knows it, which for those of the
API server may be long after its start: until then their devices read as free, and to withhold their topology
would have running pods refused. So nothing is withheld until List shows all that was in use before. What
that was, the kubelet's own checkpoint says; where it cannot be read, what List showed last.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from numaplace.model.names import DeviceId, IdsByResource, ResourceName

LONGEST_SECONDS = 300.0
"""Devices of a pod that was deleted while the kubelet was away never come into use again."""


class Written(Protocol):
    """What the kubelet has written down (``kubelet.checkpoint``)."""

    @property
    def devices(self) -> IdsByResource | None:
        """What was read last; ``None``: that cannot be read."""
        ...

    async def refresh(self) -> bool:
        """Read it anew if it has changed; return whether it has."""
        ...


class KubeletRestart:
    """Compares ``checkpoint`` with what is listed.

    It holds from the beginning: the daemon may have been started together with the kubelet.
    """

    def __init__(self, checkpoint: Written, *, clock: Callable[[], float]) -> None:
        self.checkpoint = checkpoint
        self._clock = clock
        self._since: float | None = clock()
        self._expected: IdsByResource = {}

    @property
    def since_seconds(self) -> float | None:
        """When the kubelet was lost or came back last; ``None`` when nothing is held."""
        return self._since

    def lost(self, in_use: IdsByResource) -> None:
        """Note that the kubelet has gone; ``in_use`` is what was in use by then."""
        if self._since is None:
            self._expected = dict(in_use)
        self._since = self._clock()

    def returned(self) -> None:
        """Note that the kubelet has accepted a registration."""
        if self._since is not None:
            self._since = self._clock()

    def waits_for(
        self, in_use: Callable[[ResourceName], Collection[DeviceId]], ours: Collection[ResourceName]
    ) -> IdsByResource:
        """Return what the kubelet holds for pods that it does not list yet; empty: let go."""
        if self._since is None:
            return {}
        if self._clock() - self._since < LONGEST_SECONDS:
            written = self.checkpoint.devices
            expected = self._expected if written is None else written
            missing = {
                resource: expected[resource].difference(in_use(resource))
                for resource in ours
                if resource in expected
            }
            found = {resource: ids for resource, ids in missing.items() if ids}
            if found:
                return found
        self._since, self._expected = None, {}
        return {}
