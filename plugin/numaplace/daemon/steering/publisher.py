"""What is withheld now, over all resources, and when the kubelet uses a changed list.

What ListAndWatch has written is not yet what the kubelet uses: it handles the lists of a resource one by one,
and ends each with a checkpoint on disk, under the mutex that Allocate and the next admission need too (device
manager, ``genericDeviceUpdateCallback``). One list is handled by the time that the next pod is admitted.
With several sent in a short time the kubelet was seen to be some lists behind. So after the second one its
GetAllocatableResources is asked, which shows the topology of the devices as it has it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from numaplace.daemon.steering.context import SteeringContext
from numaplace.errors import PeerError
from numaplace.model.names import DeviceId, ResourceName
from numaplace.prediction.predict import NOTHING_WITHHELD, Withheld
from numaplace.steering.published_topology import first_step

LISTS_WITHOUT_QUESTION = 1


class Publisher:
    """Of overlapping changes the newest wins: an older one that waits for its delivery goes no further."""

    def __init__(self, context: SteeringContext) -> None:
        self._context = context
        self._times = context.times
        self._clock = context.clock
        self._changes = 0
        self._ended: dict[ResourceName, float] = {}
        self._used: dict[ResourceName, frozenset[DeviceId]] = {}
        self._sent_at: tuple[float, ...] = ()
        self.withheld: Withheld = NOTHING_WITHHELD

    def expose_all(self) -> None:
        """Withhold nothing, at once; the lists are on their way when this returns, not yet delivered."""
        self._changes += 1
        self._publish(NOTHING_WITHHELD)

    def devices_changed(self) -> None:
        self._sent_at = (*self._recent(), self._clock())

    async def change(self, following: Withheld, *, freed_too: bool = True) -> bool:
        """Change to another set; False if the kubelet has not taken over a list in time.

        Not ``freed_too``: devices that have become free since the last list show their topology still, for a
        container that has been given their NUMA node may be about to get them.

        If several resources change, what becomes exposed goes first; the rest follows when the kubelet has
        taken that over. One list changes all of one resource at once.
        """
        self._changes += 1
        mine = self._changes
        if freed_too:
            self._used = {}
        first = first_step(self.withheld, following)
        names = self.withheld.keys() | following.keys()
        several = sum(self.withheld.get(one) != following.get(one) for one in names) > 1
        if several and first not in (self.withheld, following):
            self._publish(first)
            arrived = await self._arrived(ask_anyway=True)
            if mine != self._changes:
                return True
            if not arrived:
                return False
        self._publish(following)
        return await self._arrived(ask_anyway=False) or mine != self._changes

    def lately_withheld(self, resources: Collection[ResourceName]) -> bool:
        since = self._clock() - self._times.blame_seconds
        return any(one in self.withheld or self._ended.get(one, since) > since for one in resources)

    def _publish(self, withheld: Withheld) -> None:
        for resource in self.withheld.keys() - withheld.keys():
            self._ended[resource] = self._clock()
        self.withheld = withheld
        for resource, published in self._context.resources().items():
            mask = withheld.get(resource, 0)
            used: frozenset[DeviceId] = frozenset()
            if mask:
                used = self._context.in_use(resource).union(self._used.get(resource, ()))
            self._used[resource] = used
            if published.publish(mask, in_use=used):
                self._context.report.list_sent(resource)
                self.devices_changed()

    async def _arrived(self, *, ask_anyway: bool) -> bool:
        """Return once the kubelet has all lists, as far as that has to be asked; False if it does not."""
        resources = tuple(self._context.resources().values())
        limit = self._times.delivery_seconds
        if not all(await asyncio.gather(*(one.delivered(limit) for one in resources))):
            return False
        recent = self._recent()
        if not recent or (len(recent) <= LISTS_WITHOUT_QUESTION and not ask_anyway):
            return True
        end = self._clock() + self._times.confirm_seconds
        try:
            # The calls are paced where they are made.
            while (left := end - self._clock()) > 0:
                allocatable = await self._context.lists.live_allocatable(timeout_seconds=left)
                if all(one.shown_by(allocatable) for one in resources):
                    self._sent_at = tuple(one for one in self._sent_at if one not in recent)
                    return True
        except PeerError:
            pass
        return False

    def _recent(self) -> tuple[float, ...]:
        since = self._clock() - self._times.recent_seconds
        return tuple(one for one in self._sent_at if one >= since)
