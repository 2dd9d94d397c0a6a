"""The kubelet's side of both sockets, in the test's own event loop, misbehaving when told to."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import grpc
from grpc import aio
from numaplace.kubelet.api import deviceplugin_pb2 as dp
from numaplace.kubelet.api import deviceplugin_pb2_grpc as dp_rpc
from numaplace.kubelet.api import podresources_pb2 as pr

PATIENCE_SECONDS = 60.0


async def eventually(condition: Callable[[], object], *, seconds: float = PATIENCE_SECONDS) -> None:
    """Return once the condition holds; fail when it does not within the limit."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not come true in time"
        await asyncio.sleep(0.005)


class Registered:
    """One accepted registration: the request, what dialling back gave, and the lists of the stream."""

    def __init__(self, request: dp.RegisterRequest, options: dp.DevicePluginOptions) -> None:
        self.request = request
        self.options = options
        self.lists: list[list[str]] = []
        self.stream_ended = False

    @property
    def endpoint(self) -> str:
        return self.request.endpoint


class KubeletSide(dp_rpc.RegistrationServicer):
    """A Registration server as the kubelet's: dials back within Register, then follows ListAndWatch."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.accepted: list[Registered] = []
        self.attempts = 0
        self.refuse: str = ""
        self.abandon_streams = False
        self.confuses_servers = False
        self._server: aio.Server | None = None
        self._channels: list[aio.Channel] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, *, clean: bool = True) -> None:
        """Serve; as a kubelet, remove all sockets before."""
        for left in self.directory.glob("*.sock" if clean else "kubelet.sock"):
            left.unlink()
        self._server = aio.server()
        dp_rpc.add_RegistrationServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix:{self.directory / 'kubelet.sock'}")
        await self._server.start()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.drop_streams()
        self._tasks = []
        if self._server is not None:
            await self._server.stop(0)
            self._server = None

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def Register(self, request, context):  # noqa: N802 - the protocol's name
        self.attempts += 1
        if self.refuse:
            await context.abort(grpc.StatusCode.UNKNOWN, self.refuse)
        channel = aio.insecure_channel(
            f"unix:{self.directory / request.endpoint}", options=[("grpc.default_authority", "localhost")]
        )
        self._channels.append(channel)
        stub = dp_rpc.DevicePluginStub(channel)
        options = await stub.GetDevicePluginOptions(dp.Empty(), timeout=5)
        registered = Registered(request, options)
        self.accepted.append(registered)
        if not self.abandon_streams:
            self._tasks.append(asyncio.create_task(self._follow(stub, registered)))
        return dp.Empty()

    async def _follow(self, stub, registered: Registered) -> None:
        with contextlib.suppress(aio.AioRpcError, asyncio.CancelledError):
            async for response in stub.ListAndWatch(dp.Empty()):
                registered.lists.append([device.ID for device in response.devices])
        registered.stream_ended = True
        if self.confuses_servers:
            # Kubelets before 1.36 look up whom to disconnect by the resource's name only.
            await self.drop_streams()

    async def drop_streams(self) -> None:
        """Close the connections to all plugins, as the kubelet does after a list that it could not read."""
        channels, self._channels = self._channels, []
        for channel in channels:
            await channel.close()

    @property
    def last(self) -> Registered:
        return self.accepted[-1]


class PodResourcesSide(grpc.GenericRpcHandler):
    """A PodResources server that answers with given bytes, and fails or hangs when told to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.replies: dict[str, bytes] = {
            "List": b"",
            "GetAllocatableResources": b"",
            "Get": pr.GetPodResourcesResponse().SerializeToString(),
        }
        self.fail: dict[str, grpc.StatusCode] = {}
        self.gate: asyncio.Event | None = None
        self.calls: list[str] = []
        self.times: list[float] = []
        self._server: aio.Server | None = None

    def say(self, *pods: pr.PodResources) -> None:
        self.replies["List"] = pr.ListPodResourcesResponse(pod_resources=pods).SerializeToString()

    async def start(self) -> None:
        self._server = aio.server()
        self._server.add_generic_rpc_handlers((self,))
        self._server.add_insecure_port(f"unix:{self.path}")
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(0)
            self._server = None

    def service(self, details):
        service, _, method = details.method.rpartition("/")
        if service != "/v1.PodResourcesLister" or method not in self.replies:
            return None

        async def answer(request: bytes, context) -> bytes:
            self.calls.append(method)
            self.times.append(time.monotonic())
            reply = self.replies[method]
            if self.gate is not None:
                await self.gate.wait()
            if method in self.fail:
                await context.abort(self.fail[method], "told to fail")
            return reply

        return grpc.unary_unary_rpc_method_handler(answer)


def pod(name: str, *, resource: str = "", ids: tuple[str, ...] = (), nodes: tuple[int, ...] = ()):
    """A pod with one container that holds the devices."""
    message = pr.PodResources(name=name, namespace="default")
    container = message.containers.add(name="main")
    if resource:
        block = container.devices.add(resource_name=resource, device_ids=ids)
        block.topology.nodes.extend(pr.NUMANode(ID=node) for node in nodes)
    return message
