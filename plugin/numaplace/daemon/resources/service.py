"""One resource towards the kubelet: its devices as published, and the answers to the kubelet's calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from numaplace.daemon.preference.decider import DecisionSettings, PreferredRequest
from numaplace.daemon.resources.context import ResourceContext, ResourceSettings
from numaplace.daemon.resources.published import PublishedTopology
from numaplace.daemon.resources.supply import Supply
from numaplace.kubelet.api import deviceplugin_pb2 as pb
from numaplace.kubelet.plugin.devicelist import DeviceListBroadcaster, StreamCursor
from numaplace.model.device import Device
from numaplace.model.names import DeviceId, ResourceName
from numaplace.placement.index import index_devices
from numaplace.steering.hidden_devices import LOOK_SECONDS


class ResourceService:
    """Implements ``kubelet.plugin.service.PluginHandler`` for one resource."""

    def __init__(
        self, resource: ResourceName, supply: Supply, context: ResourceContext, settings: ResourceSettings
    ) -> None:
        self.resource = resource
        self.topology = PublishedTopology(resource, clock=context.clock)
        self._supply = supply
        self._node_state = context.node_state
        self._decider = context.decider
        self._steering = context.steering
        self._clock = context.clock
        self._settings: DecisionSettings = settings.decision
        self._index = index_devices(())

    @property
    def settings(self) -> DecisionSettings:
        return self._settings

    @property
    def options(self) -> pb.DevicePluginOptions:
        options = pb.DevicePluginOptions()
        options.CopyFrom(self._supply.options)
        options.get_preferred_allocation_available = True
        return options

    @property
    def board(self) -> DeviceListBroadcaster:
        return self.topology.board

    def reload(self, settings: ResourceSettings) -> None:
        self._settings = settings.decision
        self._supply.reload(settings)

    def put(self, devices: tuple[Device, ...]) -> None:
        self._index = index_devices(devices)
        self._node_state.set_devices(self.resource, devices)
        self.topology.replace(devices)
        self._steering.reset()

    @contextmanager
    def following(self) -> Iterator[StreamCursor]:
        """Count a ListAndWatch stream as open; after the last one, the next kubelet may be another one."""
        try:
            with self.board.following() as follower:
                yield follower
        finally:
            if not self.board.followed:
                self._node_state.kubelet_lost()
                self._steering.kubelet_lost()

    async def preferred(
        self, available: Sequence[DeviceId], must_include: Sequence[DeviceId], size: int
    ) -> Sequence[DeviceId]:
        self._steering.active()
        asked_at_seconds = self._clock()
        hidden = self.topology.hidden
        lost = hidden.mixes(available, must_include) and self._steering.lost_alignment(self.resource)
        if lost or hidden.changed_since(asked_at_seconds - LOOK_SECONDS):
            available = tuple(hidden.looked_at(available, must_include, size))
        return await self._decider.decide(
            PreferredRequest(
                self.resource, available, must_include, size, self._index, self._settings, asked_at_seconds
            )
        )

    async def allocate(self, ids: Sequence[DeviceId]) -> pb.AllocateResponse:
        """Answer Allocate with what the supply gives; note the grant.

        The list for the next admission leaves before the answer.
        """
        reply = await self._supply.allocate(ids)
        since_seconds = self._node_state.granted(self.resource, ids)
        await self._steering.deliver_next(self.resource, ids, since_seconds=since_seconds)
        return reply

    async def pre_start(self, ids: Sequence[DeviceId]) -> pb.PreStartContainerResponse:
        return await self._supply.pre_start(ids)
