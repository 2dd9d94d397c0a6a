"""Servers that are hostile or broken: each costs a bounded number of bytes and seconds."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from itertools import chain, repeat

import pytest
from cluster_tools import client_of, raw_server, read_request
from numaplace.cluster.client import MAX_REASON_LENGTH, Limits
from numaplace.cluster.objects import read_change, read_list
from numaplace.errors import PeerError

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
SMALL = Limits(
    request_seconds=10.0,
    refusal_seconds=0.1,
    body_bytes=100_000,
    line_bytes=100_000,
    refusal_bytes=10_000,
)
IMPATIENT = Limits(request_seconds=0.2, refusal_seconds=0.1)
SENT_LIMIT = 32 << 20
"""More than the buffers of two sockets hold."""


class Outcome:
    """What a server sent, and what came of it."""

    def __init__(self) -> None:
        self.sent = 0
        self.error = PeerError("none")
        self.body: bytes | None = None


async def asked(pieces: Iterator[bytes], limits: Limits, *, hang: bool = False) -> Outcome:
    """Send ``pieces`` for as long as somebody reads them, then close, or say no more."""
    outcome = Outcome()
    over = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await read_request(reader)
            for piece in pieces:
                writer.write(piece)
                outcome.sent += len(piece)
                await writer.drain()
                if outcome.sent > SENT_LIMIT:
                    break
            if hang:
                await reader.read()
        finally:
            over.set()

    async with raw_server(answer) as url:
        with client_of(url, limits) as client:
            try:
                outcome.body = bytes(await client.request("GET", "/x"))
            except PeerError as error:
                outcome.error = error
        await over.wait()
    return outcome


def endless(start: bytes, piece: bytes) -> Iterator[bytes]:
    return chain([start], repeat(piece))


@pytest.mark.parametrize(
    "pieces",
    [
        endless(HEAD, b"X-Header: value\r\n" * 1000),
        endless(HEAD + b"X: ", b"y" * 65536),
        endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        endless(b"", b"x" * 65536),
        endless(HEAD + b"\r\n", b"y" * 65536),
        endless(HEAD + b"Content-Length: 99999999999\r\n\r\n", b"y" * 65536),
        endless(CHUNKED, b"1\r\ny\r\n" * 1000),
        endless(CHUNKED, b"ffffffff\r\n" + b"y" * 65536),
        endless(CHUNKED + b"1;", b"extension" * 1000),
        endless(CHUNKED + b"0\r\n", b"X-Trailer: value\r\n" * 1000),
    ],
    ids=[
        "headers",
        "header line",
        "interim answers",
        "first line",
        "body",
        "body of a length",
        "chunks",
        "chunk",
        "chunk header",
        "trailers",
    ],
)
async def test_what_has_no_end_is_not_read_to_it(pieces: Iterator[bytes]) -> None:
    outcome = await asked(pieces, SMALL)
    assert outcome.error.code == "UNAVAILABLE"
    assert outcome.sent < SENT_LIMIT


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "the answer cannot be read: "),
        (HEAD, "connection in mid-response"),
        (b"", "connection in mid-response"),
        (HEAD + b"Content-Length: 5\r\n\r\n{}", "connection in mid-response"),
        (HEAD + b"Content-Length: -1\r\n\r\n", "the answer cannot be read: "),
        (HEAD + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", "the answer cannot be read: "),
        (HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}", "the answer cannot be read: "),
        (HEAD + b"Transfer-Encoding: gzip\r\n\r\n", "the answer cannot be read: "),
        (HEAD + b"X" * 65536 + b": y\r\n\r\n", "the answer cannot be read: "),
        (CHUNKED + b"nonsense\r\n", "the answer cannot be read: "),
        (CHUNKED + b"-5\r\nhello\r\n", "the answer cannot be read: "),
        (CHUNKED + b"f" * 1000 + b"\r\n", "the answer cannot be read: "),
        (CHUNKED + b"2\r\nhello\r\n0\r\n\r\n", "the answer cannot be read: "),
        (CHUNKED + b"5\r\nhello\r\n", "connection in mid-response"),
    ],
)
async def test_what_is_no_http_is_a_failure_with_a_short_reason(text: bytes, reason: str) -> None:
    outcome = await asked(iter([text]), SMALL)
    assert outcome.error.code == "UNAVAILABLE"
    assert reason in str(outcome.error)
    assert len(str(outcome.error)) < 200


@pytest.mark.parametrize(
    "text", [b"", HEAD, HEAD + b"Content-Length: 5\r\n\r\n{", CHUNKED, CHUNKED + b"5\r\nhe"]
)
async def test_what_stalls_is_given_up(text: bytes) -> None:
    outcome = await asked(iter([text]), IMPATIENT, hang=True)
    assert (outcome.error.code, str(outcome.error)) == ("UNAVAILABLE", "the server did not answer in time")


@pytest.mark.parametrize(
    "pieces",
    [
        endless(b"", b"y" * 65536),
        iter([b"", b"y"]),
        iter([b"[" * 60_000]),
        iter([b'{"x":' + b"[" * 9_000]),
        iter([b"\xff\xfe"]),
    ],
    ids=["endless", "stalled", "too long", "nested", "no text"],
)
async def test_a_refusal_counts_whatever_its_body_is(pieces: Iterator[bytes]) -> None:
    head = b"HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = (b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece)
    outcome = await asked(chain([head], chunks), SMALL, hang=True)
    assert outcome.error.code == "403"
    assert outcome.sent < SENT_LIMIT
    assert len(str(outcome.error)) < MAX_REASON_LENGTH + 100


async def test_the_reason_of_a_refusal_is_cut() -> None:
    body = b'{"message": "%b"}' % (b"why " * 1000)
    head = b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\n\r\n" % len(body)
    outcome = await asked(iter([head + body]), Limits())
    assert str(outcome.error).startswith("GET /x: 403 why why")
    assert len(str(outcome.error)) < MAX_REASON_LENGTH + 100


async def test_a_redirection_is_not_followed() -> None:
    outcome = await asked(
        iter([b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"]), SMALL
    )
    assert outcome.error.code == "302"


def watched(text: bytes) -> Iterator[bytes]:
    yield CHUNKED
    yield b"%x\r\n%b\r\n" % (len(text), text)


@pytest.mark.parametrize(
    ("pieces", "silence_seconds", "reason"),
    [
        (endless(HEAD + b"\r\n{}\n", b"x" * 65536), 10.0, "a line of more than"),
        (watched(b"{}\n"), 10.0, "connection in mid-response"),
        (endless(HEAD + b"\r\n{}\n", b""), 0.2, "did not answer in time"),
        (endless(HEAD + b"\r\n{}\n", b"\n"), 0.2, "did not answer in time"),
        (endless(HEAD + b"\r\n{}\n", b"x"), 0.2, "did not answer in time"),
    ],
    ids=["endless line", "cut off", "silent", "empty lines", "slow line"],
)
async def test_a_watch_is_bounded_line_by_line(
    pieces: Iterator[bytes], silence_seconds: float, reason: str
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        for number, piece in enumerate(pieces):
            writer.write(piece)
            await writer.drain()
            if number and len(piece) < 2:
                await asyncio.sleep(0.01)

    seen = []
    async with raw_server(answer) as url:
        with client_of(url, SMALL) as client, pytest.raises(PeerError, match=reason) as caught:
            async with client.lines("/x", {}, silence_seconds=silence_seconds) as lines:
                seen += [line async for line in lines]
    assert caught.value.code == "UNAVAILABLE"


async def test_a_refused_watch_has_a_code() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n")
        await reader.read()

    async with raw_server(answer) as url:
        with client_of(url) as client, pytest.raises(PeerError) as caught:
            async with client.lines("/x", {}, silence_seconds=10.0):
                pass
    assert caught.value.code == "410"


@pytest.mark.parametrize("seed", range(60))
async def test_changed_bytes_are_an_answer_or_a_failure(seed: int) -> None:
    chance = random.Random(seed)
    text = bytearray(HEAD + b"Content-Length: 2\r\n\r\n{}" if seed % 2 else CHUNKED + b"2\r\n{}\r\n0\r\n\r\n")
    for _ in range(chance.randint(1, 3)):
        text[chance.randrange(len(text))] = chance.choice(b"\0\r\n :;09af\xff")
    outcome = await asked(iter([bytes(text)]), IMPATIENT)
    assert outcome.body is not None or outcome.error.code != "UNKNOWN"


@pytest.mark.parametrize("read", [read_list, read_change])
@pytest.mark.parametrize(
    "text",
    [b"[" * 60_000, b'{"metadata":' + b"[" * 60_000, b'{"type":"ADDED","object":' + b"[" * 60_000],
)
def test_json_that_is_nested_deeply_cannot_be_read(read: object, text: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read(text)  # type: ignore[operator]
