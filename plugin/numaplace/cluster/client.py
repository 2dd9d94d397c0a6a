"""Requests to the API server, on the event loop.

Short requests share a few kept connections. The server may have closed a kept one just as we send:
then a request that may be made twice is made once more on a new connection, a POST or PATCH is not. A watch
has a connection of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlencode

import h11
import msgspec

from numaplace.cluster.connection import LEAST_PIECE_BYTES, Connection, connect
from numaplace.cluster.credentials import Credentials, Server
from numaplace.cluster.decode import decode
from numaplace.errors import PeerError
from numaplace.threads import in_thread

MAX_REASON_LENGTH: Final = 500
MAX_KEPT: Final = 2

UNAVAILABLE: Final = "UNAVAILABLE"
"""``PeerError.code`` when there is no answer in HTTP; otherwise it is the status, such as ``403``."""

CONFLICT: Final = "409"
"""An object of this name exists already (POST), or it has changed since it was read (PUT)."""

_REPEATABLE = frozenset({"GET", "PUT", "DELETE"})
_AWAY = (OSError, EOFError, h11.RemoteProtocolError)
"""``OSError`` is TLS and time limits, too."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one response in bytes; ``line``: of a watch, ``refusal``: of an error's body.

    etcd takes objects of up to 1.5 MiB, and their JSON is longer. ``idle_seconds``: how long a connection is
    kept without a request; a burst shares one, but thousands of nodes must not hold an idle one each.
    """

    request_seconds: float = 30.0
    refusal_seconds: float = 5.0
    idle_seconds: float = 5.0
    body_bytes: int = 64 * 1024 * 1024
    line_bytes: int = 8 * 1024 * 1024
    refusal_bytes: int = 64 * 1024


@dataclass(frozen=True, slots=True)
class _Message:
    method: str
    path: str
    query: Mapping[str, str]
    body: bytes = b""
    content_type: str = ""

    def head(self, server: Server, user_agent: str, *, authorization: str | None) -> h11.Request:
        host = f"[{server.host}]" if ":" in server.host else server.host
        headers = [
            ("Host", f"{host}:{server.port}"),
            ("User-Agent", user_agent),
            ("Accept", "application/json"),
        ]
        if authorization:
            headers.append(("Authorization", authorization))
        if self.content_type:
            headers += [("Content-Type", self.content_type), ("Content-Length", str(len(self.body)))]
        query = f"?{urlencode(self.query)}" if self.query else ""
        return h11.Request(
            method=self.method, target=f"{server.base_path}{self.path}{query}", headers=headers
        )


class ApiClient:
    """Calls one API server. Every failure is a ``PeerError`` with a code as in ``UNAVAILABLE``."""

    def __init__(self, credentials: Credentials, *, user_agent: str, limits: Limits | None = None) -> None:
        self._credentials = credentials
        self._user_agent = user_agent
        self._limits = limits or Limits()
        self._kept: dict[Connection, asyncio.TimerHandle] = {}

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = "application/json",
    ) -> bytearray:
        """Return the body of the answer; ``body`` is sent as JSON of type ``content_type``."""
        message = _Message(method, path, query or {})
        if body is not None:
            message = replace(message, body=msgspec.json.encode(body), content_type=content_type)
        with _failures():
            async with asyncio.timeout(self._limits.request_seconds):
                return await self._exchanged(message)

    @asynccontextmanager
    async def lines(
        self, path: str, query: Mapping[str, str], *, silence_seconds: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the lines of a response as they arrive, until the server ends it.

        A server that completes no line for ``silence_seconds`` is treated as gone.
        """
        message = _Message("GET", path, query)
        connection: Connection | None = None
        try:
            with _failures():
                async with asyncio.timeout(self._limits.request_seconds):
                    head = await self._head(message)
                    connection = await self._connect()
                    await self._ask(connection, message, head)
            yield _Lines(connection, silence_seconds, limit_bytes=self._limits.line_bytes)
        finally:
            if connection is not None:
                connection.abort()

    def close(self) -> None:
        while self._kept:
            connection, timer = self._kept.popitem()
            timer.cancel()
            connection.abort()

    async def _exchanged(self, message: _Message) -> bytearray:
        head = await self._head(message)
        kept = await self._take_kept()
        if kept is not None:
            try:
                return await self._answer(kept, message, head)
            except (OSError, EOFError):
                if kept.answering or message.method not in _REPEATABLE:
                    raise
        return await self._answer(await self._connect(), message, head)

    async def _answer(self, connection: Connection, message: _Message, head: h11.Request) -> bytearray:
        try:
            await self._ask(connection, message, head)
            return await connection.body(limit_bytes=self._limits.body_bytes)
        finally:
            if len(self._kept) < MAX_KEPT and connection.reuse():
                later = asyncio.get_running_loop().call_later
                self._kept[connection] = later(self._limits.idle_seconds, self._drop, connection)
            else:
                connection.abort()

    async def _ask(self, connection: Connection, message: _Message, head: h11.Request) -> None:
        """Send a request; ``PeerError`` if it is refused. The answer's body is to be read then."""
        await connection.send(head, message.body)
        status = await connection.status()
        if status < 300:
            return
        body = bytearray()
        # The status is reported even if the body fails.
        with suppress(*_AWAY):
            async with asyncio.timeout(self._limits.refusal_seconds):
                body = await connection.body(limit_bytes=self._limits.refusal_bytes)
        raise PeerError(f"{message.method} {message.path}: {status} {_reason(body)}", code=str(status))

    async def _take_kept(self) -> Connection | None:
        while self._kept:
            connection, timer = self._kept.popitem()
            timer.cancel()
            if await connection.still_open():
                return connection
        return None

    def _drop(self, connection: Connection) -> None:
        del self._kept[connection]
        connection.abort()

    async def _head(self, message: _Message) -> h11.Request:
        authorization = await in_thread(self._credentials.authorization, name="API credentials")
        return message.head(self._credentials.server, self._user_agent, authorization=authorization)

    async def _connect(self) -> Connection:
        tls = await in_thread(self._credentials.tls, name="API credentials")
        return await connect(self._credentials.server, tls)


class _Lines:
    """The lines of an answer that are not empty."""

    def __init__(self, connection: Connection, silence_seconds: float, *, limit_bytes: int) -> None:
        self._connection = connection
        self._limit_bytes = limit_bytes
        self._silence_seconds = silence_seconds
        self._text = bytearray()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        with _failures():
            async with asyncio.timeout(self._silence_seconds):
                while (line := await self._line()) is not None:
                    if line.strip():
                        return line
        raise StopAsyncIteration

    async def _line(self) -> bytes | None:
        """Return a line, or ``None`` at the end. No byte is searched twice, however slowly a line arrives."""
        searched = cost = 0
        while (end := self._text.find(b"\n", searched)) < 0:
            searched = len(self._text)
            piece = await self._connection.piece()
            if not piece:
                return None
            self._text += piece
            cost += max(len(piece), LEAST_PIECE_BYTES)
            if cost > self._limit_bytes:
                raise h11.RemoteProtocolError(f"a line of more than {self._limit_bytes} bytes")
        line = bytes(self._text[:end])
        del self._text[: end + 1]
        return line


@contextmanager
def _failures() -> Iterator[None]:
    """Turn the server's failures into ``PeerError``. Never wrap the caller's code in it."""
    try:
        yield
    except h11.RemoteProtocolError as exc:
        raise PeerError(f"the answer cannot be read: {str(exc)[:100]}", code=UNAVAILABLE) from exc
    except EOFError as exc:
        raise PeerError("the server closed the connection in mid-response", code=UNAVAILABLE) from exc
    except OSError as exc:
        # The TimeoutError of a time limit has no text.
        raise PeerError(str(exc) or "the server did not answer in time", code=UNAVAILABLE) from exc


class _Status(msgspec.Struct):
    message: str = ""


def _reason(body: bytearray) -> str:
    try:
        reason = decode(body, _Status).message
    except ValueError:
        reason = body[:MAX_REASON_LENGTH].decode(errors="replace")
    return reason[:MAX_REASON_LENGTH]
