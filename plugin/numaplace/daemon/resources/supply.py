"""Where a resource's devices come from, and what a container gets with them.

``HostSupply`` finds them on the host. Another supply may be a device plugin of a vendor, whose answers are
passed on as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from numaplace.daemon.resources.context import ResourceSettings
from numaplace.kubelet.api import deviceplugin_pb2 as pb
from numaplace.model.device import Device
from numaplace.model.names import DeviceId

PutDevices = Callable[[tuple[Device, ...]], None]
"""Takes all devices of the resource as they are now."""


class Supply(Protocol):
    """Supplies one resource. Called on the event loop."""

    @property
    def options(self) -> pb.DevicePluginOptions:
        """What the supply asks of the kubelet, ``pre_start_required`` above all."""

    async def run(self, put: PutDevices) -> None:
        """Keep the devices up to date until cancelled; the first call says that they are known."""

    def reload(self, settings: ResourceSettings) -> None: ...

    async def allocate(self, ids: Sequence[DeviceId]) -> pb.AllocateResponse:
        """Return what one container gets with these devices; it reaches the kubelet with unknown fields.

        Devices removed just before are answered for, too. ``PeerError`` fails the pod.
        """

    async def pre_start(self, ids: Sequence[DeviceId]) -> pb.PreStartContainerResponse:
        """Prepare devices for a container that is about to start; ``PeerError`` fails it."""
