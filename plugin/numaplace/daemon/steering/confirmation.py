"""Whether the kubelet has taken in the device lists that it was sent.

What ListAndWatch has written is not yet what the kubelet goes by: it handles the lists of a resource one by
one, and ends each with a checkpoint on disk, under the mutex that Allocate and the next admission need too
(device manager, ``genericDeviceUpdateCallback``). One list is handled by the time that the next pod is looked
at. With several sent in a short time the kubelet was seen to be some lists behind. So after the second one
its GetAllocatableResources is asked, which shows the topology of the devices as it has it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Protocol

from numaplace.errors import PeerError
from numaplace.model.device import Device
from numaplace.model.names import DeviceId, ResourceName
from numaplace.model.podresources import Allocatable

LATELY_SECONDS = 0.25
"""Much longer than the kubelet needs for a list."""

LISTS_WITHOUT_QUESTION = 1
CONFIRM_SECONDS = 0.1
PAUSE_SECONDS = 0.002


class Shown(Protocol):
    """A resource that is published (``daemon.resources.service``)."""

    def shown_by(self, allocatable: Allocatable) -> bool:
        """Return whether the kubelet has the devices as they are published now."""
        ...


class Confirmation:
    """``ask`` is GetAllocatableResources, with the seconds that it may take; ``PeerError`` if it fails."""

    def __init__(
        self,
        ask: Callable[[float], Awaitable[Allocatable]],
        *,
        clock: Callable[[], float],
        within_seconds: float = CONFIRM_SECONDS,
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._within_seconds = within_seconds
        self._sent_at: tuple[float, ...] = ()

    def sent(self) -> None:
        """Note that a list of some resource was sent."""
        self._sent_at = (*self._lately(), self._clock())

    async def have_arrived(self, resources: Collection[Shown], *, ask_anyway: bool) -> bool:
        """Return once the kubelet goes by all lists, as far as that has to be asked; False if it does not."""
        lately = self._lately()
        if not lately or (len(lately) <= LISTS_WITHOUT_QUESTION and not ask_anyway):
            return True
        end = self._clock() + self._within_seconds
        try:
            while (left := end - self._clock()) > 0:
                allocatable = await self._ask(left)
                if all(one.shown_by(allocatable) for one in resources):
                    self._sent_at = tuple(one for one in self._sent_at if one not in lately)
                    return True
                await asyncio.sleep(PAUSE_SECONDS)
        except PeerError:
            return False
        return False

    def _lately(self) -> tuple[float, ...]:
        since = self._clock() - LATELY_SECONDS
        return tuple(one for one in self._sent_at if one >= since)


def is_shown(resource: ResourceName, devices: Iterable[Device], allocatable: Allocatable) -> bool:
    """Return whether the kubelet has the devices with these NUMA nodes. It reports no unhealthy ones."""
    reported: dict[DeviceId, set[int]] = {}
    for block in allocatable.devices:
        if block.resource == resource:
            for one in block.ids:
                reported.setdefault(one, set()).update(block.nodes)
    healthy = {device.id: set(device.nodes) for device in devices if device.healthy}
    if healthy and not reported:
        return False
    return all(reported.get(one, nodes) == nodes for one, nodes in healthy.items())
