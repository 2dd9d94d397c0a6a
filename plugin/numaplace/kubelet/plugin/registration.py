"""The life cycle of one resource's server with the kubelet (kubelet ``cm/devicemanager/plugin/v1beta1``).

    wait for kubelet.sock -> serve on a fresh socket -> Register -> stop the former server -> watch
          ^                                               |                                    |
          +------------------- back-off <--- refused -----+                                    |
          +--- kubelet.sock is another one, own socket gone, or the kubelet's stream ended ----+

Why in this way:

- The kubelet dials back before it answers Register, so serving comes first.
- The kubelet keys a registration by its socket path, and refuses a path whose stream still lives; grpcio
  takes over a path that another server owns and unlinks it when it stops. So each start has its own name.
- The kubelet never reopens a stream that has ended, and a stopped former server must not be the reason for a
  gap. So a lost stream, too, leads to a new start, and the former server stops after the new one is accepted.
  (Kubelets before 1.36 take the former server's end for the new one's: one more start repairs that.)
- A kubelet that starts deletes all sockets here, ours included, and grpcio does not notice that.
- A late notice about a kubelet.sock that the last registration has already used is no restart: identities
  are compared, and taken before dialling.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from numaplace.errors import PeerError
from numaplace.kubelet.api import deviceplugin_pb2 as pb
from numaplace.kubelet.api import deviceplugin_pb2_grpc as rpc
from numaplace.kubelet.channel import answer_of, open_channel
from numaplace.kubelet.plugin.render import VERSION
from numaplace.kubelet.plugin.server import PluginServer, socket_path
from numaplace.kubelet.plugin.service import ErrorCallback, PluginHandler
from numaplace.kubelet.plugin.watch import SocketWatch
from numaplace.kubelet.sockets import SocketIdentity, remove_leftovers, socket_prefix
from numaplace.model.names import ResourceName
from numaplace.model.pacing import Backoff

RegisteredCallback = Callable[[ResourceName, bool, str], None]
"""Gets (resource, accepted or not, detail) of every attempt to register."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RegistrationTimes:
    """Durations of the life cycle. The kubelet gives its dial back to us 10 s."""

    register_timeout_seconds: float = 15.0
    first_retry_seconds: float = 0.2
    longest_retry_seconds: float = 10.0
    stream_start_seconds: float = 10.0
    """How long the kubelet may take to open its stream before the registration counts as lost."""
    handover_seconds: float = 2.0
    """How long the former server waits for the kubelet's stream to the new one before it stops."""
    stable_seconds: float = 10.0
    """A registration that held for so long ends the back-off."""
    stop_grace_seconds: float = 1.0


class Registrar:
    """Keeps one resource registered until ``run`` is cancelled. ``watch.run`` must be running elsewhere.

    ``chance`` gives numbers from 0 to 1; pauses are half as long at 0. ``clock`` is monotonic, in seconds.
    ``InputError`` when the directory's path leaves no room for a socket name.
    """

    def __init__(
        self,
        handler: PluginHandler,
        watch: SocketWatch,
        *,
        on_registered: RegisteredCallback,
        on_error: ErrorCallback,
        times: RegistrationTimes | None = None,
        chance: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        socket_path(watch.directory, handler.resource)
        self._handler = handler
        self._watch = watch
        self._on_registered = on_registered
        self._on_error = on_error
        self._times = times or RegistrationTimes()
        self._chance = chance
        self._clock = clock
        self._server: PluginServer | None = None
        self._registered = False
        self._registrations = 0

    @property
    def registered(self) -> bool:
        return self._registered

    @property
    def registrations(self) -> int:
        return self._registrations

    async def run(self) -> None:
        """Stay registered; never returns. When cancelled: end the streams, stop, remove the own socket."""
        backoff = Backoff(
            first_seconds=self._times.first_retry_seconds,
            longest_seconds=self._times.longest_retry_seconds,
            # A pause never exceeds the longest one: the kubelet refuses pods meanwhile.
            chance=lambda: self._chance() / 2,
        )
        tried: SocketIdentity | None = None
        try:
            while True:
                kubelet = await self._watch.until(self._watch.kubelet)
                held = await self._register_and_hold(kubelet)
                if held or kubelet != tried:
                    backoff.reset()
                tried = kubelet
                if not held:
                    await self._pause(kubelet, backoff.pause())
        finally:
            self._registered = False
            if self._server is not None:
                await self._server.stop(self._times.stop_grace_seconds)

    async def _register_and_hold(self, kubelet: SocketIdentity) -> bool:
        server = await self._register()
        if server is None:
            return False
        accepted_at = self._clock()
        reason = await self._watch.until(lambda: self._loss(server, kubelet, accepted_at))
        self._registered = False
        _LOG.info("registration lost", extra={"resource": self._handler.resource, "reason": reason})
        return self._clock() - accepted_at >= self._times.stable_seconds

    async def _register(self) -> PluginServer | None:
        """Serve and register; return the accepted server, ``None`` when it did not come to that."""
        server = PluginServer(
            self._handler, self._watch.directory, on_error=self._on_error, on_streams=self._watch.notify
        )
        try:
            await server.start()
            await self._announce(server)
        except PeerError as error:
            await server.stop(0)
            self._on_registered(self._handler.resource, False, str(error))  # noqa: FBT003
            return None
        except BaseException:
            await server.stop(0)
            raise
        former, self._server = self._server, server
        self._registered = True
        self._registrations += 1
        self._on_registered(self._handler.resource, True, server.path.name)  # noqa: FBT003
        if former is not None:
            await self._hand_over(former, server)
        with suppress(OSError):
            remove_leftovers(server.path, prefix=socket_prefix(self._handler.resource))
        return server

    async def _hand_over(self, former: PluginServer, server: PluginServer) -> None:
        try:
            await self._watch_until(lambda: server.had_stream or None, seconds=self._times.handover_seconds)
        finally:
            await former.stop(self._times.stop_grace_seconds)

    async def _announce(self, server: PluginServer) -> None:
        channel = open_channel(self._watch.kubelet_path)
        request = pb.RegisterRequest(
            version=VERSION,
            endpoint=server.path.name,
            resource_name=self._handler.resource,
            options=self._handler.options,
        )
        try:
            call = rpc.RegistrationStub(channel).Register(
                request, timeout=self._times.register_timeout_seconds
            )
            await answer_of(call, what=f"Register {self._handler.resource} at {self._watch.kubelet_path}")
        finally:
            await channel.close()

    def _loss(self, server: PluginServer, kubelet: SocketIdentity, accepted_at: float) -> str | None:
        if self._watch.kubelet() not in (None, kubelet):
            return "the kubelet's socket was replaced"
        if server.socket_lost:
            return "the own socket was removed"
        if server.streams:
            return None
        if server.had_stream:
            return "the kubelet's stream ended"
        late = self._clock() - accepted_at > self._times.stream_start_seconds
        return "the kubelet opened no stream" if late else None

    async def _pause(self, kubelet: SocketIdentity, seconds: float) -> None:
        """Wait; a kubelet other than the one that was tried ends the pause."""
        await self._watch_until(lambda: self._watch.kubelet() not in (None, kubelet) or None, seconds=seconds)

    async def _watch_until(self, condition: Callable[[], bool | None], *, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._watch.until(condition)
