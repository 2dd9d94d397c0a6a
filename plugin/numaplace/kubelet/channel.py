"""Channels and servers on unix sockets: every gRPC option of this package is set here.

- ``grpc.default_authority``: grpcio sends the percent-encoded socket path as ``:authority``, which some
  servers refuse (grpc/grpc #34305).
- Receive limit: a List of a full node, and a GetPreferredAllocation request with many ids, exceed gRPC's
  default of 4 MiB.
- A private subchannel pool: a new channel to a replaced socket must not inherit the old one's back-off.
- Short reconnect back-off: a kubelet restart takes a second or two, gRPC's default back-off two minutes.
  ``min_reconnect_backoff_ms`` is not a pause, but the limit of one attempt to connect: on a busy machine the
  handshake over a unix socket can take some 100 ms. A peer that dies meanwhile ends the attempt at once.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import grpc
from grpc import aio

from numaplace.errors import InputError, PeerError

RECEIVE_LIMIT_BYTES = 16 * 1024 * 1024
MAX_SOCKET_PATH_BYTES = 107
"""``sun_path`` of Linux, less its terminating zero."""

_LIMITS: tuple[tuple[str, int | str], ...] = (("grpc.max_receive_message_length", RECEIVE_LIMIT_BYTES),)
_CLIENT: tuple[tuple[str, int | str], ...] = (
    *_LIMITS,
    ("grpc.default_authority", "localhost"),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2000),
    ("grpc.max_reconnect_backoff_ms", 1000),
)

_T = TypeVar("_T")


def unix_target(path: str | os.PathLike[str]) -> str:
    """Return the gRPC target of a socket path; ``InputError`` when Linux could not bind or connect to it."""
    size_bytes = len(os.fsencode(path))
    if size_bytes > MAX_SOCKET_PATH_BYTES:
        raise InputError(
            f"socket path {os.fspath(path)!r} has {size_bytes} bytes; Linux allows {MAX_SOCKET_PATH_BYTES}: "
            f"choose a shorter directory"
        )
    return f"unix:{quote(os.fsencode(Path(path).absolute()))}"


def open_channel(path: str | os.PathLike[str]) -> aio.Channel:
    """Return a channel to the socket; connecting happens with the first call. ``InputError`` as above."""
    return aio.insecure_channel(unix_target(path), options=_CLIENT)


def new_server() -> aio.Server:
    return aio.server(options=_LIMITS)


async def start_server(server: aio.Server) -> None:
    """Start a server; a cancellation takes effect once it is up (which takes no peer), so stop it then, too.

    A start of grpcio's that is cancelled half-way lets every later ``stop`` fail, and the server complains on
    standard error when it is collected after its loop was closed.
    """
    await _to_the_end(server.start())


async def stop_server(server: aio.Server, grace_seconds: float | None) -> None:
    """Stop a server; a cancellation takes effect afterwards, so at most ``grace_seconds`` later.

    grpcio waits with Python 3.11's ``wait_for``, which loses a cancellation that comes just when the server
    is down: the caller would never end.
    """
    await _to_the_end(server.stop(grace_seconds))


async def _to_the_end(operation: Coroutine[Any, Any, None]) -> None:
    """Run an operation that must not be cancelled in a task of its own, and be cancelled only after it."""
    task = asyncio.create_task(operation)
    try:
        await asyncio.wait({task})
    finally:
        if not task.done():
            await asyncio.wait({task})
    task.result()


@asynccontextmanager
async def serving(server: aio.Server) -> AsyncIterator[None]:
    """Serve while the context is open; calls in flight are aborted at its end."""
    try:
        await start_server(server)
        yield
    finally:
        await stop_server(server, None)


async def answer_of(call: Awaitable[_T], *, what: str) -> _T:
    """Await a call; a failure becomes a ``PeerError`` with the gRPC code's name.

    A call that dies because its channel was closed raises ``CancelledError`` in grpcio although nobody
    cancelled the task that waits: that, too, is a ``PeerError``. An answer that cannot be parsed arrives as
    ``None`` from grpcio.
    """
    try:
        answer = await call
    except aio.AioRpcError as error:
        raise PeerError(f"{what}: {error.details() or 'no details'}", code=error.code().name) from error
    except (aio.BaseError, grpc.RpcError) as error:
        raise PeerError(f"{what}: {error}", code="INTERNAL") from error
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise PeerError(f"{what}: the channel was closed", code="CANCELLED") from None
    if answer is None:
        raise PeerError(f"{what}: the answer is not of the expected type", code="DECODE")
    return answer
