"""One HTTP/1.1 connection to the API server: h11 knows the protocol, asyncio's streams do the reading.

A hostile server or proxy must cost neither memory nor the event loop's time. Here are the limits in bytes of
heads, chunk headers, trailers and bodies, and the loop may do other work before each read; the limits in time
are the caller's.
"""

from __future__ import annotations

import asyncio
import socket

import h11

from numaplace.cluster.credentials import Server, Tls

CONNECT_SECONDS = 10.0
MAX_HEAD_BYTES = 32 * 1024
MAX_INTERIM_ANSWERS = 8
MAX_AGE_SECONDS = 600.0
"""An older connection is replaced: certificates are rotated."""

LEAST_PIECE_BYTES = 256
"""A shorter piece of a body counts as this long: many small chunks cost time, not memory."""

_READ_BYTES = 8 * 1024
"""Small, since chunks of one byte make 1,400 events of it: 20 ms of the loop's time."""

_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""A server that vanished is noticed after a minute, on a silent watch too."""


async def connect(server: Server, tls: Tls | None) -> Connection:
    """Open a connection; without ``tls`` it is plain HTTP."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(
                server.host,
                server.port,
                limit=_READ_BYTES,
                ssl=tls.context if tls else None,
                server_hostname=(tls.server_name or server.host) if tls else None,
            )
    except UnicodeError as exc:
        raise OSError(f"{server.host!r} is not a valid host name") from exc
    _keep_alive(writer.get_extra_info("socket"))
    return Connection(reader, writer)


class Connection:
    """Sends one request after another; before the next one the answer has to be read to its end.

    Methods raise ``OSError``, ``EOFError`` (the server hung up) and ``h11.RemoteProtocolError``.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._opened_at = asyncio.get_running_loop().time()
        self.answering = False
        """Whether anything of the last request's response has arrived."""

    async def send(self, request: h11.Request, body: bytes) -> None:
        """Send a request; its headers say how long the body is."""
        self.answering = False
        events = (request, h11.Data(body), h11.EndOfMessage())
        self._writer.write(b"".join(self._http.send(event) or b"" for event in events))
        await self._writer.drain()

    async def status(self) -> int:
        for _ in range(MAX_INTERIM_ANSWERS):
            event = await self._event()
            if isinstance(event, h11.Response):
                return event.status_code
        raise h11.RemoteProtocolError("too many interim responses")

    async def piece(self) -> bytes:
        """Return the next piece of the response's body, empty at its end."""
        event = await self._event()
        return event.data if isinstance(event, h11.Data) else b""

    async def body(self, *, limit_bytes: int) -> bytearray:
        body, cost = bytearray(), 0
        while piece := await self.piece():
            body += piece
            cost += max(len(piece), LEAST_PIECE_BYTES)
            if cost > limit_bytes:
                raise h11.RemoteProtocolError(f"a body of more than {limit_bytes} bytes")
        return body

    async def _event(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            await asyncio.sleep(0)
            data = await self._reader.read(_READ_BYTES)
            self._http.receive_data(data)
            self.answering = self.answering or bool(data)
            if not data:
                return self._end()
        return event

    def _end(self) -> object:
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError as exc:
            raise EOFError from exc

    def reuse(self) -> bool:
        """Prepare for another request; false if the connection must not be reused."""
        age_seconds = asyncio.get_running_loop().time() - self._opened_at
        done = self._http.our_state is self._http.their_state is h11.DONE
        if not done or self._http.trailing_data != (b"", False) or age_seconds > MAX_AGE_SECONDS:
            return False
        self._http.start_next_cycle()
        return True

    async def still_open(self) -> bool:
        """Return whether an idle connection can take a request; one that cannot is closed.

        Unrequested data is not the response to the next request: proxies send 408 before they close.
        """
        usable = False
        try:
            async with asyncio.timeout(0):
                await self._reader.read(1)
        except TimeoutError:
            usable = not self._reader.at_eof() and self._reader.exception() is None
        except OSError:
            pass
        finally:
            if not usable:
                self.abort()
        return usable

    def abort(self) -> None:
        """Close without the TLS shutdown, for which a dead server would have to answer."""
        self._writer.transport.abort()


def _keep_alive(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
