"""The device manager's checkpoint: which devices the kubelet holds for pods, listed or not.

An internal file of the kubelet (``cm/devicemanager/checkpoint``), beside the device plugins' sockets. What
cannot be read as expected is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from numaplace.model.names import DeviceId, ResourceName

InUse = Mapping[ResourceName, frozenset[DeviceId]]

NAME = "kubelet_internal_checkpoint"
MAX_BYTES = 16 << 20


class _Entry(msgspec.Struct, rename="pascal"):
    resource_name: str
    device_ids: dict[str, list[str] | None] | None = msgspec.field(default=None, name="DeviceIDs")


class _Data(msgspec.Struct, rename="pascal"):
    pod_device_entries: list[_Entry] | None = None


class _File(msgspec.Struct, rename="pascal"):
    data: _Data


class Checkpoint:
    """The checkpoint in the directory of the device plugins' sockets, read when it has changed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._version: tuple[int, ...] | None = None
        self._devices: InUse | None = None

    def devices(self) -> InUse | None:
        """Return as ``devices_in_checkpoint``; the same object as long as nothing is written."""
        try:
            found = (self._directory / NAME).stat()
        except OSError:
            self._version = self._devices = None
            return None
        version = (found.st_ino, found.st_mtime_ns, found.st_size)
        if version != self._version:
            self._version, self._devices = version, devices_in_checkpoint(self._directory)
        return self._devices


def devices_in_checkpoint(directory: Path) -> dict[ResourceName, frozenset[DeviceId]] | None:
    """Return the devices of all pods in the checkpoint, by resource; ``None`` if that cannot be told."""
    file = directory / NAME
    try:
        if file.stat().st_size > MAX_BYTES:
            return None
        found = msgspec.json.decode(file.read_bytes(), type=_File)
    except (OSError, ValueError, RecursionError):
        return None
    devices: dict[ResourceName, set[DeviceId]] = {}
    for entry in found.data.pod_device_entries or ():
        ids = devices.setdefault(ResourceName(entry.resource_name), set())
        for of_node in (entry.device_ids or {}).values():
            ids.update(DeviceId(one) for one in of_node or ())
    return {resource: frozenset(ids) for resource, ids in devices.items()}
