"""The devices of a resource as ListAndWatch publishes them, and a board that any number of streams reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from numaplace.kubelet.signals import Signal
from numaplace.model.device import Device
from numaplace.model.names import DeviceId


@dataclass(frozen=True, slots=True)
class DeviceList:
    """All devices of a resource. Another ``version`` means that the devices may differ."""

    version: int
    devices: tuple[Device, ...] = ()

    def replaced_by(self, devices: Iterable[Device]) -> DeviceList:
        """Return the next version with these devices; itself when they are the same, in the same order."""
        devices = tuple(devices)
        return self if devices == self.devices else DeviceList(self.version + 1, devices)


class DeviceBoard:
    """Holds the current list and wakes all streams when it is replaced. Never raises, never blocks a writer.

    It remembers every device that it has ever held: a kubelet may still allocate one that has just vanished.
    """

    def __init__(self, initial: DeviceList | None = None) -> None:
        self._current = initial or DeviceList(0)
        self._known: dict[DeviceId, Device] = {}
        self._changed = Signal()
        self._remember(self._current)

    @property
    def current(self) -> DeviceList:
        """The list as it is now."""
        return self._current

    def find(self, device: DeviceId) -> Device | None:
        """Return the device as it was last published, even if it has gone since; ``None`` if it never was."""
        return self._known.get(device)

    def publish(self, devices: DeviceList) -> None:
        """Replace the list. The version must be another one if the devices differ (``replaced_by``)."""
        if devices == self._current:
            return
        self._current = devices
        self._remember(devices)
        self._changed.notify()

    async def wait_change(self, version: int) -> DeviceList:
        """Return the current list as soon as its version is not the given one."""
        return await self._changed.until(lambda: self._current if self._current.version != version else None)

    def _remember(self, devices: DeviceList) -> None:
        self._known.update((device.id, device) for device in devices.devices)
