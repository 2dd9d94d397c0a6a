"""A small device plugin for tests of the emulator: answers as it is told, and records what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc
from grpc import aio
from numaplace.kubelet.api import deviceplugin_pb2 as pb
from numaplace.kubelet.api import deviceplugin_pb2_grpc as rpc
from numaplace.model.names import ResourceName

VF = ResourceName("example.com/vf")
GIB = 1024**3

Prefer = Callable[[pb.ContainerPreferredAllocationRequest], Sequence[str] | None]


def device(name: str, nodes: Sequence[int] | None = None, health: str = "Healthy") -> pb.Device:
    """``nodes`` None: no topology; empty: topology without nodes."""
    if nodes is None:
        return pb.Device(ID=name, health=health)
    topology = pb.TopologyInfo(nodes=[pb.NUMANode(ID=node) for node in nodes])
    return pb.Device(ID=name, health=health, topology=topology)


def first_asked(request: pb.ContainerPreferredAllocationRequest) -> Sequence[str]:
    must = sorted(request.must_include_deviceIDs)
    others = sorted(set(request.available_deviceIDs) - set(must))
    return [*must, *others][: request.allocation_size]


class SmallPlugin(rpc.DevicePluginServicer):
    def __init__(
        self,
        folder: Path,
        resource: str,
        devices: Sequence[pb.Device],
        *,
        endpoint: str = "small.sock",
        offers_preference: bool = True,
    ) -> None:
        self.folder = folder
        self.resource = resource
        self.endpoint = endpoint
        self.devices = list(devices)
        self.offers_preference = offers_preference
        self.prefer: Prefer = first_asked
        self.allocate_status: grpc.StatusCode | None = None
        self.allocate_responses = 1
        self.preferred: list[pb.ContainerPreferredAllocationRequest] = []
        self.allocated: list[Mapping[str, Any]] = []
        self.during_preference: Callable[[], Any] | None = None
        self._changed = asyncio.Event()
        self._end_streams = False
        self._stream_ended = asyncio.Event()
        self._server = aio.server()
        rpc.add_DevicePluginServicer_to_server(self, self._server)

    async def __aenter__(self) -> SmallPlugin:
        self._server.add_insecure_port(f"unix:{self.folder / self.endpoint}")
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(None)

    async def register(
        self, version: str = "v1beta1", resource: str | None = None, endpoint: str | None = None
    ) -> None:
        options = [("grpc.use_local_subchannel_pool", 1)]
        async with aio.insecure_channel(f"unix:{self.folder / 'kubelet.sock'}", options=options) as channel:
            await rpc.RegistrationStub(channel).Register(
                pb.RegisterRequest(
                    version=version,
                    endpoint=self.endpoint if endpoint is None else endpoint,
                    resource_name=self.resource if resource is None else resource,
                ),
                timeout=5,
            )

    def publish(self, devices: Sequence[pb.Device]) -> None:
        self.devices = list(devices)
        self._wake()

    def end_streams(self) -> None:
        self._end_streams = True
        self._wake()

    async def end_streams_and_wait(self) -> None:
        self.end_streams()
        async with asyncio.timeout(5):
            await self._stream_ended.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def GetDevicePluginOptions(self, request: Any, context: Any) -> pb.DevicePluginOptions:  # noqa: N802
        return pb.DevicePluginOptions(get_preferred_allocation_available=self.offers_preference)

    async def ListAndWatch(self, request: Any, context: Any) -> AsyncIterator[pb.ListAndWatchResponse]:  # noqa: N802
        while not self._end_streams:
            changed = self._changed
            yield pb.ListAndWatchResponse(devices=self.devices)
            await changed.wait()
        self._end_streams = False
        self._stream_ended.set()

    async def GetPreferredAllocation(self, request: Any, context: Any) -> pb.PreferredAllocationResponse:  # noqa: N802
        (asked,) = request.container_requests
        self.preferred.append(asked)
        if self.during_preference:
            await self.during_preference()
        answer = self.prefer(asked)
        if answer is None:
            return pb.PreferredAllocationResponse()
        return pb.PreferredAllocationResponse(
            container_responses=[pb.ContainerPreferredAllocationResponse(deviceIDs=answer)]
        )

    async def Allocate(self, request: Any, context: Any) -> pb.AllocateResponse:  # noqa: N802
        if self.allocate_status:
            await context.abort(self.allocate_status, "no")
        (asked,) = request.container_requests
        self.allocated.append({"ids": sorted(asked.devices_ids)})
        response = pb.ContainerAllocateResponse(
            envs={"DEVICES": ",".join(sorted(asked.devices_ids))},
            devices=[pb.DeviceSpec(host_path="/dev/a", container_path="/dev/b", permissions="rw")],
            mounts=[pb.Mount(host_path="/h", container_path="/c", read_only=True)],
            annotations={"note": "yes"},
            cdi_devices=[pb.CDIDevice(name="example.com/vf=1")],
        )
        return pb.AllocateResponse(container_responses=[response] * self.allocate_responses)

    async def PreStartContainer(self, request: Any, context: Any) -> pb.PreStartContainerResponse:  # noqa: N802
        return pb.PreStartContainerResponse()
