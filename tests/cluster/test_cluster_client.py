"""What callers of the API server's client can rely on: which requests are made, and how often."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from cluster_tools import client_of, raw_server, read_request, until
from numaplace.cluster.client import CONFLICT, ApiClient, Limits
from numaplace.cluster.fake import FakeApiServer
from numaplace.errors import PeerError

THINGS = "/apis/example.com/v1/things"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def thing(name: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **fields}


async def test_short_requests_share_a_connection(api: FakeApiServer, client: ApiClient) -> None:
    await client.request("POST", THINGS, body=thing("a"))
    connections = set(api.connections)
    for _ in range(3):
        assert b'"a"' in await client.request("GET", f"{THINGS}/a")
    with pytest.raises(PeerError) as caught:
        await client.request("GET", f"{THINGS}/b")
    assert caught.value.code == "404"
    await client.request("GET", f"{THINGS}/a")
    assert api.connections == connections
    assert len(connections) == 1


async def test_an_object_that_has_changed_is_a_conflict(api: FakeApiServer, client: ApiClient) -> None:
    path = f"{THINGS}/a"
    await client.request("POST", THINGS, body=thing("a"))
    first = api.objects.by_path[path]
    await client.request("PUT", path, body={**first, "zones": 1})
    with pytest.raises(PeerError) as caught:
        await client.request("PUT", path, body={**first, "zones": 2})
    assert caught.value.code == CONFLICT
    with pytest.raises(PeerError) as caught:
        await client.request("POST", THINGS, body=thing("a"))
    assert caught.value.code == CONFLICT
    assert api.objects.by_path[path]["zones"] == 1


async def test_requests_at_once_each_get_their_own_answer(client: ApiClient) -> None:
    names = [f"thing-{number}" for number in range(10)]
    await asyncio.gather(*(client.request("POST", THINGS, body=thing(name)) for name in names))
    found = await asyncio.gather(*(client.request("GET", f"{THINGS}/{name}") for name in names))
    assert [name.encode() in text for name, text in zip(names, found, strict=True)] == [True] * 10


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_connection_closed_between_two_requests_loses_none(
    api: FakeApiServer, client: ApiClient, method: str
) -> None:
    await client.request("POST", THINGS, body=thing("a"))
    api.close_connections()
    await until(lambda: not api.connections)
    if method == "GET":
        await client.request("GET", f"{THINGS}/a")
    else:
        await client.request("POST", THINGS, body=thing("b"))
    assert [one for one, _, _ in api.requests] == ["POST", method]


@pytest.mark.parametrize(("method", "made"), [("GET", 2), ("PUT", 2), ("POST", 1), ("PATCH", 1)])
async def test_a_request_that_meets_a_closing_connection_is_only_repeated_if_that_is_safe(
    method: str, made: int
) -> None:
    """The server has read the request, and perhaps done what it asks for, when it closes the connection."""
    seen: list[str] = []

    async def once_answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append((await read_request(reader))[0])
        writer.write(OK)
        seen.append((await read_request(reader))[0])

    async with raw_server(once_answered) as url:
        with client_of(url) as client:
            await client.request("GET", "/first")
            second = client.request(method, "/second", body=None if method == "GET" else {})
            if made == 2:
                assert await second == b"{}"
            else:
                with pytest.raises(PeerError, match="closed the connection") as caught:
                    await second
                assert caught.value.code == "UNAVAILABLE"
    assert seen == ["GET"] + [method] * made


async def test_a_new_connection_that_closes_is_not_tried_again() -> None:
    seen: list[str] = []

    async def closed(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        seen.append((await read_request(reader))[0])

    async with raw_server(closed) as url:
        with client_of(url) as client, pytest.raises(PeerError):
            await client.request("GET", "/x")
    assert seen == ["GET"]


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
        b"HTTP/1.0 200 OK\r\n\r\n{}",
    ],
)
async def test_after_such_an_answer_the_connection_is_not_used_again(answer: bytes) -> None:
    connections: list[int] = []

    async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        await read_request(reader)
        writer.write(answer)
        if b"close" in answer or b"HTTP/1.0" in answer:
            await writer.drain()
            writer.close()
            await writer.wait_closed()
        else:
            await read_request(reader)

    async with raw_server(answered) as url:
        with client_of(url) as client:
            assert await client.request("GET", "/x") == b"{}"
            assert await client.request("GET", "/x") == b"{}"
    assert len(connections) == 2


async def test_what_comes_without_a_request_is_no_answer_to_the_next_one() -> None:
    """HAProxy says 408 to an idle client before it hangs up."""
    impatient = asyncio.Event()
    said = asyncio.Event()

    async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(OK)
        await impatient.wait()
        if not said.is_set():
            writer.write(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            said.set()
        await reader.read()

    async with raw_server(answered) as url:
        with client_of(url) as client:
            await client.request("GET", "/x")
            impatient.set()
            await said.wait()
            assert await client.request("GET", "/x") == b"{}"


async def test_the_answer_of_a_request_that_was_cancelled_goes_to_no_other() -> None:
    begun, again = asyncio.Event(), asyncio.Event()

    async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = not begun.is_set()
        await read_request(reader)
        if first:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfir")
            await writer.drain()
            begun.set()
            await again.wait()
            writer.write(b"st")
        else:
            writer.write(OK)
        await reader.read()

    async with raw_server(answered) as url:
        with client_of(url) as client:
            cancelled = asyncio.create_task(client.request("GET", "/first"))
            await begun.wait()
            cancelled.cancel()
            await asyncio.wait({cancelled})
            assert await client.request("GET", "/second") == b"{}"
            again.set()


async def test_an_idle_connection_is_closed(api: FakeApiServer) -> None:
    with client_of(api.url, Limits(idle_seconds=0.05)) as client:
        await client.request("POST", THINGS, body=thing("a"))
        await until(lambda: not api.connections)
        await client.request("GET", f"{THINGS}/a")


async def test_a_patch_says_its_type() -> None:
    seen: list[bytes] = []

    async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(OK)
        await reader.read()

    async with raw_server(answered) as url:
        with client_of(url) as client:
            await client.request("PATCH", "/x", body={}, content_type="application/merge-patch+json")
    assert b"content-type: application/merge-patch+json\r\ncontent-length: 2\r\n" in seen[0].lower()


@pytest.mark.parametrize("ours", [ValueError, TimeoutError, OSError, EOFError])
async def test_an_error_of_whoever_reads_lines_is_not_the_servers(
    api: FakeApiServer, client: ApiClient, ours: type[Exception]
) -> None:
    async def read() -> None:
        query = {"watch": "1", "resourceVersion": "1"}
        async with client.lines("/api/v1/pods", query, silence_seconds=10.0) as lines:
            async for _ in lines:
                raise ours("a bug")

    api.bookmark()
    with pytest.raises(ours, match="a bug"):
        await read()
