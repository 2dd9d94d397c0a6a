"""The few HTTP/1.1 requests that are made to the API server, on the event loop.

One connection per request: a watch holds its own for minutes, and Events are rare. Written on asyncio's
streams: no thread stands in a read that cannot be ended, and the standard library has no client for the event
loop.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlencode

import msgspec

from numaplace.cluster.credentials import Credentials
from numaplace.errors import PeerError

REQUEST_SECONDS = 30.0
CONNECT_SECONDS = 10.0
MAX_BODY_BYTES = 64 * 1024 * 1024
UNAVAILABLE = "UNAVAILABLE"
"""``PeerError.code`` when there is no answer in HTTP; otherwise it is the status, such as ``403``."""

_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""A server that is gone without a word is noticed after a minute, on a silent watch, too."""

_NETWORK_ERRORS = (OSError, ValueError)
"""``OSError`` is TLS and time limits, too; ``ValueError`` no HTTP."""


@dataclass(frozen=True, slots=True)
class Request:
    """``body`` is sent as JSON of type ``content_type``."""

    method: str
    path: str
    query: Mapping[str, str]
    body: object = None
    content_type: str = "application/json"


class ApiClient:
    """Calls one API server. Every failure is a ``PeerError`` with a code as in ``UNAVAILABLE``."""

    def __init__(self, credentials: Credentials, *, user_agent: str) -> None:
        self._credentials = credentials
        self._user_agent = user_agent

    async def call(self, request: Request) -> bytes:
        """Return the body of the answer."""
        async with _failures(REQUEST_SECONDS), self._answer(request) as chunks:
            parts, size = [], 0
            async for chunk in chunks:
                parts.append(chunk)
                size += len(chunk)
                if size > MAX_BODY_BYTES:
                    raise ValueError(f"an answer of more than {MAX_BODY_BYTES} bytes")
            return b"".join(parts)

    @asynccontextmanager
    async def lines(self, request: Request, *, silence_seconds: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Give the lines of an answer as they come, until the server ends it.

        A server that sends nothing for ``silence_seconds`` counts as gone.
        """
        async with _failures(REQUEST_SECONDS) as limit, self._answer(request) as chunks:
            yield _lines(chunks, limit, silence_seconds)

    @asynccontextmanager
    async def _answer(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        access = await asyncio.to_thread(self._credentials.access)
        server = self._credentials.server
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(
                server.host,
                server.port,
                ssl=access.tls,
                server_hostname=(access.server_name or server.host) if access.tls else None,
            )
        try:
            _keep_alive(writer.get_extra_info("socket"))
            writer.write(self._text(request, access.authorization))
            await writer.drain()
            status, headers = await _head(reader)
            if status >= 300:
                body = b"".join([chunk async for chunk in _chunks(reader, headers)])
                raise PeerError(
                    f"{request.method} {request.path}: {status} {_message(body)}", code=str(status)
                )
            yield _chunks(reader, headers)
        finally:
            # Not awaited: saying goodbye to a server that is gone would take its time.
            writer.transport.abort()

    def _text(self, request: Request, authorization: str | None) -> bytes:
        server = self._credentials.server
        body = b"" if request.body is None else msgspec.json.encode(request.body)
        host = f"[{server.host}]" if ":" in server.host else server.host
        query = f"?{urlencode(request.query)}" if request.query else ""
        lines = [
            f"{request.method} {server.base_path}{request.path}{query} HTTP/1.1",
            f"Host: {host}:{server.port}",
            f"User-Agent: {self._user_agent}",
            "Accept: application/json",
            "Connection: close",
        ]
        if authorization:
            lines.append(f"Authorization: {authorization}")
        if request.body is not None:
            lines += [f"Content-Type: {request.content_type}", f"Content-Length: {len(body)}"]
        return "\r\n".join([*lines, "", ""]).encode() + body


@asynccontextmanager
async def _failures(limit_seconds: float) -> AsyncIterator[asyncio.Timeout]:
    try:
        async with asyncio.timeout(limit_seconds) as limit:
            yield limit
    except EOFError as exc:
        raise PeerError("the server ended the connection in the middle", code=UNAVAILABLE) from exc
    except _NETWORK_ERRORS as exc:
        raise PeerError(str(exc) or type(exc).__name__, code=UNAVAILABLE) from exc


def _keep_alive(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """Return the status and the headers, by their names in lower case."""
    version, _, rest = (await _line(reader)).partition(" ")
    if not version.startswith("HTTP/1."):
        raise ValueError("the answer is not HTTP/1.1")
    headers = {}
    while line := await _line(reader):
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return int(rest[:3]), headers


async def _line(reader: asyncio.StreamReader) -> str:
    return (await reader.readuntil(b"\n")).decode("latin-1").rstrip("\r\n")


async def _chunks(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
    """Give the body in pieces, in whichever of HTTP's three ways it is sent."""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        while size := int((await _line(reader)).partition(";")[0], 16):
            if size > MAX_BODY_BYTES:
                raise ValueError(f"a chunk of {size} bytes")
            yield await reader.readexactly(size)
            await _line(reader)
    elif "content-length" in headers:
        size = int(headers["content-length"])
        if size > MAX_BODY_BYTES:
            raise ValueError(f"an answer of {size} bytes")
        yield await reader.readexactly(size)
    else:
        while chunk := await reader.read(65536):
            yield chunk


async def _lines(
    chunks: AsyncIterator[bytes], limit: asyncio.Timeout, silence_seconds: float
) -> AsyncIterator[bytes]:
    clock = asyncio.get_running_loop().time
    waiting = bytearray()
    limit.reschedule(clock() + silence_seconds)
    async for chunk in chunks:
        limit.reschedule(clock() + silence_seconds)
        waiting += chunk
        if len(waiting) > MAX_BODY_BYTES:
            raise ValueError(f"a line of more than {MAX_BODY_BYTES} bytes")
        *whole, rest = waiting.split(b"\n")
        waiting = rest
        for line in whole:
            if line.strip():
                yield bytes(line)


class _Status(msgspec.Struct):
    message: str = ""


def _message(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Status).message
    except msgspec.MsgspecError:
        return body[:200].decode(errors="replace")
