"""What is withheld now, over all resources, and how the kubelet learns that it changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from numaplace.daemon.steering.confirmation import Confirmation, Shown
from numaplace.model.names import DeviceId, ResourceName
from numaplace.steering.withheld import NOTHING, WithheldSet, first_step

DELIVERY_SECONDS = 0.05
"""A list of some hundred devices is written within one or two milliseconds."""

RECENT_SECONDS = 10.0
"""How long after its end a withheld set may be the reason of a refusal that the API server tells of."""


NO_IDS: frozenset[DeviceId] = frozenset()


class PublishedResource(Shown, Protocol):
    """A resource whose published topology can be shaped (``daemon.resources.service``)."""

    def publish(self, withheld: frozenset[int], *, in_use: frozenset[DeviceId]) -> bool:
        """Publish under this withheld set; return whether the list is another one now."""
        ...

    async def delivered(self, timeout_seconds: float) -> bool:
        """Return once all streams have sent the list; False if the time is up before."""
        ...


class Publisher:
    """``resources`` are the ones in service, ``in_use`` the devices that somebody holds.

    ``sent`` is told of each list that changed.

    The newest change wins: an older one that still waits for its delivery goes no further.
    """

    def __init__(
        self,
        resources: Callable[[], Mapping[ResourceName, PublishedResource]],
        *,
        in_use: Callable[[ResourceName], frozenset[DeviceId]],
        sent: Callable[[ResourceName], None],
        confirmation: Confirmation,
        clock: Callable[[], float],
        delivery_seconds: float = DELIVERY_SECONDS,
    ) -> None:
        self._resources = resources
        self._in_use = in_use
        self._sent = sent
        self._confirmation = confirmation
        self._clock = clock
        self._delivery_seconds = delivery_seconds
        self._changes = 0
        self._ended: dict[ResourceName, float] = {}
        self._used: dict[ResourceName, frozenset[DeviceId]] = {}
        self.withheld: WithheldSet = NOTHING

    def expose_all(self) -> None:
        """Withhold nothing, at once; the lists are on their way when this returns, not yet delivered."""
        self._changes += 1
        self._publish(NOTHING)

    def devices_changed(self) -> None:
        """Note that a resource has just sent a list of its own, with other devices."""
        self._confirmation.sent()

    async def change(self, following: WithheldSet, *, freed_too: bool = True) -> bool:
        """Go over to another set; False if the kubelet has not taken in a list in time.

        Not ``freed_too``: devices that have become free since the last list show their topology still, for a
        container that has been given their NUMA node may be about to get them.

        If several resources change, what becomes exposed goes first; the rest follows when the kubelet goes
        by that. One list changes all of one resource at once.
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
        """Return whether topology of one of the resources is withheld, or was a moment ago."""
        now = self._clock()
        return any(
            resource in self.withheld or now - self._ended.get(resource, -RECENT_SECONDS) < RECENT_SECONDS
            for resource in resources
        )

    def _publish(self, withheld: WithheldSet) -> None:
        for resource in self.withheld.keys() - withheld.keys():
            self._ended[resource] = self._clock()
        self.withheld = withheld
        for resource, published in self._resources().items():
            nodes = withheld.get(resource, frozenset())
            used = self._in_use(resource) | self._used.get(resource, NO_IDS) if nodes else NO_IDS
            self._used[resource] = used
            if published.publish(nodes, in_use=used):
                self._sent(resource)
                self._confirmation.sent()

    async def _arrived(self, *, ask_anyway: bool) -> bool:
        resources = self._resources().values()
        if not all(await asyncio.gather(*(one.delivered(self._delivery_seconds) for one in resources))):
            return False
        return await self._confirmation.have_arrived(resources, ask_anyway=ask_anyway)
