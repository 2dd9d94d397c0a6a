"""``/metrics``, ``/healthz`` and ``/readyz``.

They are served by the standard library's threaded server, beside the event loop: rendering must not stand in
the way of an admission. State is read on the loop, in one short call.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeVar

from numaplace.errors import InputError

LOOP_ANSWERS_SECONDS = 2.0
REQUEST_TIMEOUT_SECONDS = 10.0

_SILENT = b"the event loop does not answer\n"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Pages:
    """What is served.

    ``refresh`` (before each scrape) and ``ready`` run on the event loop, whose state they read; ``metrics``
    runs in the server's thread. ``ready`` returns whether the daemon is ready, and what is missing.
    """

    refresh: Callable[[], None]
    metrics: Callable[[], tuple[bytes, str]]
    ready: Callable[[], tuple[bool, str]]


@contextmanager
def serve_http(listen: tuple[str, int], pages: Pages) -> Iterator[int]:
    """Serve on (host, port) while the context is open; yield the port. To be entered on the event loop.

    ``InputError`` if the address cannot be had.
    """
    loop = asyncio.get_running_loop()

    class Handler(_Handler):
        pass

    Handler.pages, Handler.loop = pages, loop
    try:
        server = ThreadingHTTPServer(listen, Handler)
    except OSError as exc:
        raise InputError(
            f"http.address: cannot listen on {listen[0]}:{listen[1]}: {exc.strerror or exc}"
        ) from exc
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="http", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    pages: Pages
    loop: asyncio.AbstractEventLoop
    timeout = REQUEST_TIMEOUT_SECONDS
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        match self.path.partition("?")[0]:
            case "/metrics":
                self._on_loop(self.pages.refresh)
                body, content_type = self.pages.metrics()
                self._answer(200, body, content_type)
            case "/healthz":
                alive = self._on_loop(lambda: True)
                self._answer(200 if alive else 503, b"ok\n" if alive else _SILENT)
            case "/readyz":
                ready, text = self._on_loop(self.pages.ready) or (False, _SILENT.decode().strip())
                self._answer(200 if ready else 503, text.encode() + b"\n")
            case _:
                self._answer(404, b"/metrics, /healthz or /readyz\n")

    def _on_loop(self, function: Callable[[], _T]) -> _T | None:
        """Return what the function returns on the event loop; ``None`` if the loop does not answer."""

        async def call() -> _T:
            return function()

        asked = asyncio.run_coroutine_threadsafe(call(), self.loop)
        try:
            return asked.result(LOOP_ANSWERS_SECONDS)
        except FutureTimeoutError:
            asked.cancel()
            return None

    def _answer(self, status: int, body: bytes, content_type: str = "text/plain; charset=utf-8") -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Stay quiet: a scrape is no event."""
