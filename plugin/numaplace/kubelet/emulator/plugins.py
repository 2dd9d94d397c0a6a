"""The kubelet's side of the device-plugin API: Registration server and one client per plugin.

A plugin is known by (resource, socket path). The kubelet dials back and asks for the options while the plugin
waits for Register's answer; then it keeps a ListAndWatch stream, and considers the plugin gone when the
stream ends. Several plugins of one resource may be connected at once (an update of the plugin): all of them
publish, the last message counts, and the newest is the one that is called.

Reimplements kubelet v1.37.2 ``pkg/kubelet/cm/devicemanager``: ``plugin/v1beta1/{server,handler,client}.go``,
``PluginConnected``, ``PluginDisconnected``, ``CleanupPluginDirectory``, ``endpoint.go``.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
from grpc import aio

from numaplace.errors import InputError, PeerError
from numaplace.kubelet.api import deviceplugin_pb2 as pb
from numaplace.kubelet.api.deviceplugin_pb2_grpc import DevicePluginStub, RegistrationServicer
from numaplace.kubelet.channel import answer_of, unix_target
from numaplace.kubelet.emulator.node import Node
from numaplace.kubelet.emulator.values import Endpoint, Limits, Registration
from numaplace.kubelet.emulator.waiting import Changes
from numaplace.model.names import ResourceName

if TYPE_CHECKING:
    from numaplace.kubelet.api.deviceplugin_pb2_grpc import DevicePluginAsyncStub

API_VERSION = "v1beta1"

# The kubelet's client keeps gRPC's default limit of 4 MiB: a larger ListAndWatch message ends the stream.
_CLIENT_OPTIONS: tuple[tuple[str, int | str], ...] = (
    ("grpc.default_authority", "localhost"),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2000),
    ("grpc.max_reconnect_backoff_ms", 100),
)

_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_QUOTA_PREFIX = "requests."


def is_extended_resource(name: str) -> bool:
    """Return whether the kubelet takes the name for an extended resource (``IsExtendedResourceName``)."""
    prefix, slash, base = name.partition("/")
    if not slash or "kubernetes.io/" in name or name.startswith(_QUOTA_PREFIX):
        return False
    return (
        len(_QUOTA_PREFIX + prefix) <= 253
        and len(base) <= 63
        and bool(_PREFIX.fullmatch(prefix))
        and bool(_NAME.fullmatch(base))
    )


def remove_sockets(folder: Path) -> None:
    """Delete the sockets in ``folder``; other files and sub-folders stay (``CleanupPluginDirectory``)."""
    for path in folder.iterdir():
        if path.is_socket():
            path.unlink()


@dataclass(eq=False, slots=True)
class PluginClient:
    """A dialled plugin."""

    resource: ResourceName
    socket_path: str
    channel: aio.Channel
    options: pb.DevicePluginOptions
    stopped: bool = False

    @property
    def stub(self) -> DevicePluginAsyncStub:
        """The plugin's methods; ``PeerError`` once it is gone."""
        if self.stopped:
            raise PeerError(f"the plugin of {self.resource} is gone", code="STOPPED")
        return DevicePluginStub(self.channel)


class PluginServer(RegistrationServicer):
    """Registration, and the clients that it makes. Lives from one start of the kubelet to its stop."""

    def __init__(
        self,
        folder: Path,
        *,
        node: Node,
        tasks: asyncio.TaskGroup,
        changes: Changes,
        limits: Limits,
        on_publish: Callable[[ResourceName], None],
    ) -> None:
        self._folder = folder
        self._node = node
        self._tasks = tasks
        self._changes = changes
        self._limits = limits
        self._on_publish = on_publish
        self._clients: list[PluginClient] = []
        self._connected: dict[ResourceName, dict[str, PluginClient]] = {}
        self._primary: dict[ResourceName, PluginClient] = {}
        self._streams: set[asyncio.Task[None]] = set()
        self.registrations: list[Registration] = []

    async def Register(  # noqa: N802
        self, request: pb.RegisterRequest, context: aio.ServicerContext[Any, Any]
    ) -> pb.Empty:
        """Check, dial back, ask for the options; UNKNOWN with the problem if anything is wrong."""
        problem = await self._register(request)
        self.registrations.append(
            Registration(
                resource=ResourceName(request.resource_name),
                endpoint=request.endpoint,
                version=request.version,
                problem=problem,
            )
        )
        self._changes.notify()
        if problem:
            await context.abort(grpc.StatusCode.UNKNOWN, problem)
        return pb.Empty()

    def primary(self, resource: ResourceName) -> PluginClient | None:
        """Return the plugin that the kubelet calls for the resource, gone or not."""
        return self._primary.get(resource)

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        return tuple(
            Endpoint(
                resource=client.resource,
                socket_path=client.socket_path,
                preferred_allocation=client.options.get_preferred_allocation_available,
                primary=self._primary.get(client.resource) is client,
            )
            for clients in self._connected.values()
            for client in clients.values()
        )

    def stop(self) -> None:
        for stream in self._streams:
            stream.cancel()

    async def _register(self, request: pb.RegisterRequest) -> str:
        if request.version != API_VERSION:
            return f"version {request.version!r} is not supported, {API_VERSION!r} is"
        if not is_extended_resource(request.resource_name):
            return f"{request.resource_name!r} is not the name of an extended resource"
        resource = ResourceName(request.resource_name)
        # Go joins paths lexically: an absolute endpoint stays below the folder.
        socket_path = f"{self._folder}/{request.endpoint.lstrip('/')}"
        try:
            client = await self._dial(resource, socket_path)
        except (PeerError, InputError) as error:
            # The kubelet drops all its clients of that path, including one that still serves.
            self._give_up(resource, socket_path)
            return str(error)
        self._clients.append(client)
        self._connected.setdefault(resource, {})[socket_path] = client
        self._primary[resource] = client
        stream = self._tasks.create_task(self._watch(client))
        self._streams.add(stream)
        stream.add_done_callback(self._streams.discard)
        return ""

    async def _dial(self, resource: ResourceName, socket_path: str) -> PluginClient:
        channel = aio.insecure_channel(unix_target(socket_path), options=_CLIENT_OPTIONS)
        try:
            async with asyncio.timeout(self._limits.dial_seconds):
                await channel.channel_ready()
            options = await answer_of(
                DevicePluginStub(channel).GetDevicePluginOptions(
                    pb.Empty(), timeout=self._limits.call_seconds
                ),
                what="GetDevicePluginOptions",
            )
            if socket_path in self._connected.get(resource, {}):
                raise PeerError(f"a plugin is already connected at {socket_path}")  # noqa: TRY301
        except TimeoutError as error:
            await channel.close()
            raise PeerError(f"nothing serves {socket_path}", code="UNAVAILABLE") from error
        except BaseException:
            await channel.close()
            raise
        return PluginClient(resource, socket_path, channel, options)

    async def _watch(self, client: PluginClient) -> None:
        try:
            try:
                async for message in client.stub.ListAndWatch(pb.Empty()):
                    self._node.publish(client.resource, message.devices)
                    self._on_publish(client.resource)
                    self._changes.notify()
            except aio.AioRpcError:
                pass
            if client not in self._clients:
                # Dropped by a refused registration at its socket: the kubelet misses its end, keeps its
                # devices healthy and the connection open, and refuses that socket until it is restarted.
                await asyncio.Event().wait()
        finally:
            await client.channel.close()
        self._give_up(client.resource, client.socket_path)
        self._disconnect(client)
        self._changes.notify()

    def _give_up(self, resource: ResourceName, socket_path: str) -> None:
        self._clients = [
            one for one in self._clients if (one.resource, one.socket_path) != (resource, socket_path)
        ]

    def _disconnect(self, client: PluginClient) -> None:
        client.stopped = True
        others = self._connected[client.resource]
        del others[client.socket_path]
        if others:
            self._primary[client.resource] = next(iter(others.values()))
        else:
            del self._connected[client.resource]
            self._node.devices.lose(client.resource)
