"""Handlers that tests hand to the device-plugin service."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from numaplace.errors import PeerError
from numaplace.kubelet.plugin.service import DeviceList, DeviceListBroadcaster
from numaplace.model.device import ContainerEdits, Device

RESOURCE = "example.com/widget"


class Handler:
    """Publishes a board, prefers the last ids, and allocates what it has ever published."""

    def __init__(self, *ids: str, resource: str = RESOURCE) -> None:
        self.resource = resource
        self.board = DeviceListBroadcaster(DeviceList(1, tuple(Device(one) for one in ids)))
        self.prefer: Callable[..., object] = lambda available, must, size: sorted(available)[-size:]
        self.edits: dict[str, ContainerEdits] = {}

    def publish(self, *devices: Device | str) -> None:
        new = (Device(one) if isinstance(one, str) else one for one in devices)
        self.board.publish(self.board.current.replaced_by(new))

    def devices(self) -> DeviceList:
        return self.board.current

    async def wait_change(self, version: int) -> DeviceList:
        return await self.board.wait_change(version)

    def following(self):
        return self.board.following()

    def written(self, follower, version: int) -> None:
        self.board.written(follower, version)

    async def preferred(self, available, must_include, size) -> Sequence[str]:
        answer = self.prefer(available, must_include, size)
        return await answer if hasattr(answer, "__await__") else answer

    async def allocate(self, ids) -> ContainerEdits:
        for one in ids:
            if self.board.find(one) is None:
                raise PeerError(f"unknown device {one}", code="NOT_FOUND")
        return self.edits.get(ids[0], ContainerEdits()) if ids else ContainerEdits()
