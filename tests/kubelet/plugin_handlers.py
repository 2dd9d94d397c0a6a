"""Handlers that tests hand to the device-plugin service."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from numaplace.errors import PeerError
from numaplace.kubelet.api import deviceplugin_pb2 as dp
from numaplace.kubelet.plugin.render import container_response, plugin_options
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
        self.reply: dp.AllocateResponse | None = None
        self.options = plugin_options()
        self.known = set(ids)
        self.started: list[list[str]] = []
        self.pre_start_fails = ""

    def publish(self, *devices: Device | str) -> None:
        new = [Device(one) if isinstance(one, str) else one for one in devices]
        self.known.update(one.id for one in new)
        self.board.publish(self.board.current.replaced_by(new))

    def following(self):
        return self.board.following()

    async def preferred(self, available, must_include, size) -> Sequence[str]:
        answer = self.prefer(available, must_include, size)
        return await answer if hasattr(answer, "__await__") else answer

    async def allocate(self, ids) -> dp.AllocateResponse:
        for one in ids:
            if one not in self.known:
                raise PeerError(f"unknown device {one}", code="NOT_FOUND")
        edits = self.edits.get(ids[0], ContainerEdits()) if ids else ContainerEdits()
        return self.reply or dp.AllocateResponse(container_responses=[container_response(edits)])

    async def pre_start(self, ids) -> dp.PreStartContainerResponse:
        self.started.append(list(ids))
        if self.pre_start_fails:
            raise PeerError(self.pre_start_fails, code="UNKNOWN")
        return dp.PreStartContainerResponse()
