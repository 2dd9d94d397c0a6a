"""``/metrics``, ``/healthz``, ``/readyz``, and pages of JSON.

They are served by the standard library's threaded server, beside the event loop: rendering must not stand in
the way of an admission. State is read on the loop, in one short call.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, TypeVar

from numaplace.errors import InputError

LOOP_ANSWERS_SECONDS = 2.0
REQUEST_TIMEOUT_SECONDS = 10.0

_SILENT = "the event loop does not answer"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Pages:
    """What is served.

    ``refresh`` (before each scrape) and ``ready`` run on the event loop, whose state they read; ``metrics``
    runs in the server's thread. ``ready`` returns whether the daemon is ready, and what is missing.
    ``documents`` are pages by path, for clients on this machine or in this pod, for they may name pods and
    devices: each takes what it needs on the event loop, and returns what makes JSON values of it in the
    server's thread. ``failed`` gets the exceptions of all these, in that thread.
    """

    refresh: Callable[[], None]
    metrics: Callable[[], tuple[bytes, str]]
    ready: Callable[[], tuple[bool, str]]
    failed: Callable[[Exception], None]
    documents: Mapping[str, Callable[[], Callable[[], object]]] = field(default_factory=dict)


@contextmanager
def serve_http(
    listen: tuple[str, int], pages: Pages, *, loop_answers_seconds: float = LOOP_ANSWERS_SECONDS
) -> Iterator[int]:
    """Serve on (host, port) while the context is open; yield the port. To be entered on the event loop.

    An empty host is every address, IPv6 included where the machine has it. ``InputError`` if the address
    cannot be had.
    """
    loop = asyncio.get_running_loop()

    class Handler(_Handler):
        pass

    Handler.pages, Handler.loop, Handler.loop_answers_seconds = pages, loop, loop_answers_seconds
    try:
        server = _Server(listen, Handler)
    except OSError as exc:
        raise InputError(
            f"http.address: cannot listen on {listen[0]}:{listen[1]}: {exc.strerror or exc}"
        ) from exc
    thread = threading.Thread(target=server.serve_forever, name="http", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, listen: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        host, port = listen
        self._all_addresses = not host and socket.has_dualstack_ipv6()
        if self._all_addresses or ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host or ("::" if self._all_addresses else ""), port), handler)

    def server_bind(self) -> None:
        if self._all_addresses:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay quiet: a client that disconnects is not logged."""


class _Handler(BaseHTTPRequestHandler):
    pages: Pages
    loop: asyncio.AbstractEventLoop
    loop_answers_seconds: float
    timeout = REQUEST_TIMEOUT_SECONDS
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        try:
            status, body, content_type = self._page(self.path.partition("?")[0])
        except Exception as exc:  # noqa: BLE001 - answered with an error, and logged
            self.pages.failed(exc)
            status, body, content_type = 500, b"failed; the log says why\n", _TEXT
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _page(self, path: str) -> tuple[int, bytes, str]:
        match path:
            case "/metrics":
                self._on_loop(self.pages.refresh)
                return (200, *self.pages.metrics())
            case "/healthz":
                return _verdict(self._on_loop(lambda: (True, "ok")) or (False, _SILENT))
            case "/readyz":
                return _verdict(self._on_loop(self.pages.ready) or (False, _SILENT))
            case document if document in self.pages.documents:
                if not from_here(self.client_address[0], self.connection.getsockname()[0]):
                    return 403, b"for this machine only\n", _TEXT
                return self._document(self.pages.documents[document])
            case _:
                known = ", ".join(("/metrics", "/healthz", "/readyz", *self.pages.documents))
                return 404, f"there are {known}\n".encode(), _TEXT

    def _document(self, look: Callable[[], Callable[[], object]]) -> tuple[int, bytes, str]:
        write = self._on_loop(look)
        if write is None:
            return _verdict((False, _SILENT))
        return 200, json.dumps(write(), indent=2).encode() + b"\n", _JSON

    def _on_loop(self, function: Callable[[], _T]) -> _T | None:
        """Return what the function returns on the event loop; ``None`` if the loop does not answer."""

        async def call() -> _T:
            return function()

        asked = asyncio.run_coroutine_threadsafe(call(), self.loop)
        try:
            return asked.result(self.loop_answers_seconds)
        except FutureTimeoutError:
            asked.cancel()
            return None

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Stay quiet: a scrape is not logged."""


def from_here(client: str, own: str) -> bool:
    """Return whether a client's address is one of this machine: loopback, or the one that it has reached."""
    theirs, ours = _address(client), _address(own)
    return theirs.is_loopback or theirs == ours


def _address(text: str) -> IPv4Address | IPv6Address:
    found = ip_address(text.partition("%")[0])
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found


_TEXT = "text/plain; charset=utf-8"
_JSON = "application/json"


def _verdict(verdict: tuple[bool, str]) -> tuple[int, bytes, str]:
    good, text = verdict
    return 200 if good else 503, f"{text}\n".encode(), _TEXT
