"""Pods as JSON, credentials of a fake API server, and waiting."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit

from numaplace.cluster.client import ApiClient, Limits
from numaplace.cluster.credentials import Server

NODE = "worker-1"


def pod_json(
    name: str,
    limits: Mapping[str, str] | None = None,
    *,
    node: str = NODE,
    uid: str = "",
    phase: str = "Pending",
    **spec: Any,
) -> dict[str, Any]:
    containers = [{"name": "main", "image": "x", "resources": {"limits": dict(limits or {})}}]
    return {
        "kind": "Pod",
        "metadata": {
            "namespace": "default",
            "name": name,
            "uid": uid or f"uid-{name}",
            "managedFields": [{}],
        },
        "spec": {"nodeName": node, "containers": containers, **spec},
        "status": {"phase": phase},
    }


class FakeCredentials:
    """Plain HTTP, with a token."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.server = Server(parts.hostname or "", parts.port or 0)

    def authorization(self) -> str:
        return "Bearer secret"

    def tls(self) -> None:
        return None


Connected = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def raw_server(connected: Connected) -> AsyncIterator[str]:
    """Give the URL of a server that does as ``connected`` does with each connection, and then closes it."""

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await connected(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()

    async with await asyncio.start_server(served, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def read_request(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    """Return (method, body) of the next request."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    lengths = [line for line in head.splitlines() if line.lower().startswith("content-length:")]
    size = int(lengths[0].partition(":")[2]) if lengths else 0
    return head.partition(" ")[0], await reader.readexactly(size)


@contextmanager
def client_of(url: str, limits: Limits | None = None) -> Iterator[ApiClient]:
    """Give a client; its kept connections are closed at the end."""
    client = ApiClient(FakeCredentials(url), user_agent="numaplace/test", limits=limits)
    try:
        yield client
    finally:
        client.close()


async def until(condition: Callable[[], Any], limit_seconds: float = 60.0) -> Any:
    end = time.monotonic() + limit_seconds
    while not (value := condition()):
        assert time.monotonic() < end, "it did not come about"
        await asyncio.sleep(0.005)
    return value
