"""The device manager's checkpoint: which devices the kubelet holds for pods, listed or not.

An internal file of the kubelet (``cm/devicemanager/checkpoint``), beside the device plugins' sockets. What
cannot be read as expected is not known.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import msgspec

from numaplace.model.names import DeviceId, IdsByResource, ResourceName
from numaplace.threads import in_thread

NAME = "kubelet_internal_checkpoint"
MAX_BYTES = 16 << 20
READ_SECONDS = 1.0


class _Entry(msgspec.Struct, rename="pascal"):
    resource_name: str
    device_ids: dict[str, list[str] | None] | None = msgspec.field(default=None, name="DeviceIDs")


class _Data(msgspec.Struct, rename="pascal"):
    pod_device_entries: list[_Entry] | None = None


class _File(msgspec.Struct, rename="pascal"):
    data: _Data


class Checkpoint:
    """The checkpoint in the directory of the device plugins' sockets.

    ``devices`` are as in ``devices_in_checkpoint``, by the last ``refresh``.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._version: tuple[int, ...] | None = None
        self.devices: IdsByResource | None = None

    async def refresh(self) -> bool:
        """Read the file, off the event loop, if it has changed; return whether it has.

        ``TimeoutError``: it has, and could not be read in time. The next call tries again.
        """
        version = self._version_now()
        if version == self._version:
            return False
        devices = None
        if version is not None:
            async with asyncio.timeout(READ_SECONDS):
                devices = await in_thread(
                    partial(devices_in_checkpoint, self._directory), name="kubelet checkpoint"
                )
        self._version, self.devices = version, devices
        return True

    def _version_now(self) -> tuple[int, ...] | None:
        try:
            found = (self._directory / NAME).stat()
        except OSError:
            return None
        return (found.st_ino, found.st_mtime_ns, found.st_size)


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
