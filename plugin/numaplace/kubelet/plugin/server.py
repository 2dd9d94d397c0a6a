"""One start of a resource's device-plugin server, on a socket of its own."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from numaplace.errors import PeerError
from numaplace.kubelet.api import deviceplugin_pb2_grpc as rpc
from numaplace.kubelet.channel import new_server, start_server, stop_server, unix_target
from numaplace.kubelet.plugin.service import DevicePluginService, ErrorCallback, PluginHandler
from numaplace.kubelet.sockets import SocketIdentity, socket_identity, socket_name
from numaplace.model.names import ResourceName

_TOKEN_BYTES = 4


def socket_path(directory: Path, resource: ResourceName) -> Path:
    """Return a path for a new start; ``InputError`` when the directory's path leaves no room for it."""
    path = directory / socket_name(resource, secrets.token_hex(_TOKEN_BYTES))
    unix_target(path)
    return path


class PluginServer:
    """Serves from ``start`` to ``stop``, once. ``on_streams`` is called when a stream opens or ends."""

    def __init__(
        self,
        handler: PluginHandler,
        directory: Path,
        *,
        on_error: ErrorCallback,
        on_streams: Callable[[], None],
    ) -> None:
        self.path = socket_path(directory, handler.resource)
        self.streams = 0
        self.had_stream = False
        self._changed = on_streams
        self._service = DevicePluginService(handler, on_error=on_error, on_streams=self._count)
        self._server = new_server()
        self._socket: SocketIdentity | None = None

    @property
    def socket_lost(self) -> bool:
        """Whether the socket file is no longer there (a starting kubelet removes all sockets)."""
        found = socket_identity(self.path)
        return found is None or found != self._socket

    async def start(self) -> None:
        """Serve; ``PeerError`` (code ``UNAVAILABLE``) when the socket cannot be made."""
        rpc.add_DevicePluginServicer_to_server(self._service, self._server)
        try:
            self._server.add_insecure_port(unix_target(self.path))
        except RuntimeError as error:
            raise PeerError(f"{self.path}: {error}", code="UNAVAILABLE") from error
        await start_server(self._server)
        self._socket = socket_identity(self.path)

    async def stop(self, grace_seconds: float) -> None:
        """End the streams without a message, let calls in flight finish, remove the socket.

        A cancellation takes effect afterwards, so at most ``grace_seconds`` later.
        """
        self._service.drain()
        try:
            await stop_server(self._server, grace_seconds)
        finally:
            with suppress(OSError):
                self.path.unlink()

    def _count(self, streams: int) -> None:
        self.streams = streams
        self.had_stream = self.had_stream or streams > 0
        self._changed()
