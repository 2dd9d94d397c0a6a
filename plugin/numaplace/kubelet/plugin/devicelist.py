"""The devices of a resource as ListAndWatch publishes them, and a broadcaster for any number of streams."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from numaplace.kubelet.signals import Signal
from numaplace.model.device import Device


@dataclass(frozen=True, slots=True)
class DeviceList:
    """All devices of a resource. Another ``version`` means that the devices may differ."""

    version: int
    devices: tuple[Device, ...] = ()

    def replaced_by(self, devices: Iterable[Device]) -> DeviceList:
        """Return the next version with these devices; itself when they are the same, in the same order."""
        devices = tuple(devices)
        return self if devices == self.devices else DeviceList(self.version + 1, devices)


@dataclass(slots=True, eq=False)
class StreamCursor:
    """One open stream, and the version that it has written; ``None`` before its first message."""

    version: int | None = None


class DeviceListBroadcaster:
    """Holds the current list and wakes all streams when it is replaced. Never raises, never blocks a writer.

    It knows which version each stream has written, so that a writer can wait for its list to leave.
    """

    def __init__(self, initial: DeviceList | None = None) -> None:
        self._current = initial or DeviceList(0)
        self._changed = Signal()
        self._followers: set[StreamCursor] = set()
        self._written = Signal()

    @property
    def current(self) -> DeviceList:
        return self._current

    @property
    def followed(self) -> bool:
        return bool(self._followers)

    def publish(self, devices: DeviceList) -> None:
        """Replace the list. The version must be another one if the devices differ (``replaced_by``)."""
        if devices == self._current:
            return
        self._current = devices
        self._changed.notify()

    async def wait_change(self, version: int) -> DeviceList:
        return await self._changed.until(lambda: self._current if self._current.version != version else None)

    @contextmanager
    def following(self) -> Iterator[StreamCursor]:
        follower = StreamCursor()
        self._followers.add(follower)
        try:
            yield follower
        finally:
            self._followers.discard(follower)
            self._written.notify()

    def written(self, follower: StreamCursor, version: int) -> None:
        follower.version = version
        self._written.notify()

    async def delivered(self, timeout_seconds: float) -> bool:
        """Return once every open stream has written the present list; False if the time is up before.

        What is written is on its way to the kubelet, not yet in its memory.
        """
        version = self._current.version
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._written.until(lambda: self._all_have(version) or None)
        except TimeoutError:
            return False
        return True

    def _all_have(self, version: int) -> bool:
        return all(one.version is not None and one.version >= version for one in self._followers)
