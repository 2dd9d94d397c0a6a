"""What a source reports about the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from numaplace.model.device import Device
from numaplace.model.names import DeviceId


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A device that was found and is not offered. ``reason`` is a phrase for the log and ``inspect``."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Scan:
    """One scan of the host.

    ``failed``: the source could not scan at all (no PCI bus, a bad file): the devices are
    unknown, not gone, and an inventory keeps what it has. ``warnings`` are complete sentences.
    """

    devices: tuple[Device, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    warnings: tuple[str, ...] = ()
    failed: bool = False

    @property
    def matched_nothing(self) -> bool:
        """Whether a scan that worked found no device to offer: most likely a selector is wrong."""
        return not self.failed and not self.devices

    def without(self, taken: Mapping[DeviceId, str]) -> Scan:
        """Leave out these devices, each for the reason given."""
        if not any(device.id in taken for device in self.devices):
            return self
        refused = tuple(LeftOut(device.id, taken[device.id]) for device in self.devices if device.id in taken)
        kept = tuple(device for device in self.devices if device.id not in taken)
        return replace(self, devices=kept, left_out=self.left_out + refused)


class Source(Protocol):
    """Where a resource's devices come from."""

    def scan(self) -> Scan:
        """Scan the host now. Never raises for what the host shows; may block on file reads."""
        ...

    @property
    def watch_paths(self) -> tuple[Path, ...]:
        """Existing directories whose change events should cause a rescan.

        A hint only: a real sysfs sends no events for devices that come and go, so the interval counts.
        """
        ...
