from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from cluster_tools import NODE, client_of, until
from numaplace.cluster.client import ApiClient
from numaplace.cluster.events import Note, event_name, event_object
from numaplace.cluster.fake import FakeApiServer
from numaplace.cluster.sender import (
    BURST,
    GIVEN_UP_AFTER_SECONDS,
    MAX_WAITING,
    REFUSALS,
    EventSender,
    SenderClocks,
)
from numaplace.errors import PeerError

NOTE = Note("default", "p", "uid-p", "main", "NUMAPlaced", "on NUMA 1", "vf-1")
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=1)))


@dataclass
class Sent:
    """A sender whose time passes only while it sleeps."""

    client: ApiClient
    now: float = 0.0
    results: list[str] = field(default_factory=list)
    failures: list[PeerError] = field(default_factory=list)
    sleeps: list[float] = field(default_factory=list)
    slept: Callable[[], object] = lambda: None

    def __post_init__(self) -> None:
        clocks = SenderClocks(lambda: self.now, lambda: AT, lambda: 0.5, self.sleep)
        self.sender = EventSender(
            self.client, NODE, clocks=clocks, counted=self.results.append, failed=self.failures.append
        )

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += seconds
        self.slept()
        await asyncio.sleep(0)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Sent]:
        task = asyncio.create_task(self.sender.run())
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def numbered(count: int) -> list[Note]:
    return [replace(NOTE, identity=str(number)) for number in range(count)]


async def test_an_event_is_created_beside_its_pod(api: FakeApiServer, client: ApiClient) -> None:
    async with Sent(client).running() as sent:
        sent.sender.put(NOTE)
        await until(lambda: sent.results == ["sent"])
    ((key, event),) = api.events.items()
    assert key == ("default", event_name(NOTE))
    assert event["involvedObject"]["uid"] == "uid-p"
    assert event["involvedObject"]["fieldPath"] == "spec.containers{main}"
    assert (event["reason"], event["type"], event["message"]) == ("NUMAPlaced", "Normal", "on NUMA 1")
    assert (event["firstTimestamp"], event["lastTimestamp"]) == ("2026-01-02T02:04:05Z",) * 2
    assert event["source"] == {"component": "numaplace", "host": NODE}


async def test_the_same_note_is_told_once(api: FakeApiServer, client: ApiClient) -> None:
    """A daemon that starts anew does not know what its predecessor told: the API server does."""
    async with Sent(client).running() as sent:
        for note in (NOTE, NOTE, replace(NOTE, identity="vf-2"), replace(NOTE, uid="successor")):
            sent.sender.put(note)
        await until(lambda: len(sent.results) == 4)
    assert sent.results == ["sent", "duplicate", "sent", "sent"]
    assert len(api.events) == 3


async def test_a_burst_goes_at_once_and_the_rest_slowly(api: FakeApiServer, client: ApiClient) -> None:
    async with Sent(client).running() as sent:
        for note in numbered(BURST + 3):
            sent.sender.put(note)
        await until(lambda: len(sent.results) == BURST + 3)
    assert len(sent.sleeps) == 3
    assert sent.now == pytest.approx(6.0)


async def test_whoever_puts_one_in_never_waits_and_one_too_many_is_dropped(
    api: FakeApiServer, client: ApiClient
) -> None:
    sent = Sent(client)
    for note in numbered(MAX_WAITING + 2):
        sent.sender.put(note)
    assert sent.results == ["dropped", "dropped"]


async def test_what_passes_is_tried_again(api: FakeApiServer, client: ApiClient) -> None:
    api.refuse["events"] = 503
    async with Sent(client).running() as sent:
        sent.sender.put(NOTE)
        await until(lambda: len(sent.failures) >= 3)
        assert sent.results == []
        del api.refuse["events"]
        await until(lambda: sent.results == ["sent"])
    assert sent.sleeps[:3] == [1.0, 2.0, 4.0]


async def test_an_old_event_is_given_up() -> None:
    with FakeApiServer().serving() as url, client_of(url) as away:
        pass
    async with Sent(away).running() as sent:
        sent.sender.put(NOTE)
        await until(lambda: sent.results == ["failed"])
    assert GIVEN_UP_AFTER_SECONDS < sent.now < GIVEN_UP_AFTER_SECONDS + 61


async def test_a_server_that_does_not_know_its_roles_yet_is_asked_again(
    api: FakeApiServer, client: ApiClient
) -> None:
    api.refuse["events"] = 403
    async with Sent(client, slept=api.refuse.clear).running() as sent:
        sent.sender.put(NOTE)
        await until(lambda: sent.results == ["sent"])
    assert not sent.failures


@pytest.mark.parametrize(("status", "requests"), [(403, 1 + REFUSALS), (404, 1), (422, 1)])
async def test_what_is_refused_is_given_up_and_told(
    api: FakeApiServer, client: ApiClient, status: int, requests: int
) -> None:
    api.refuse["events"] = status
    async with Sent(client).running() as sent:
        sent.sender.put(NOTE)
        await until(lambda: sent.results == ["failed"])
    assert [error.code for error in sent.failures] == [str(status)]
    assert len(api.requests) == requests


def test_names_and_messages_have_the_length_that_the_api_server_takes() -> None:
    note = replace(NOTE, pod="p" * 253, message="m" * 5000)
    event = event_object(note, node_name=NODE, at=datetime.now(UTC))
    assert len(event_name(note)) == 253
    assert len(event["message"]) == 1024
