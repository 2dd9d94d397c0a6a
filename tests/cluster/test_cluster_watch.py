from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from cluster_tools import NODE, client_of, pod_json, until
from numaplace.cluster.client import ApiClient
from numaplace.cluster.fake import FakeApiServer
from numaplace.cluster.pods import PodStore
from numaplace.cluster.watch import PodWatch, WatchObserver, WatchTimes
from numaplace.errors import PeerError


@dataclass
class Watched:
    store: PodStore = field(default_factory=PodStore)
    calls: list[tuple[str, str]] = field(default_factory=list)
    failures: list[PeerError] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    up: int = 0

    @property
    def names(self) -> set[str]:
        return {name for _, name in self.store.specs.pods}


@asynccontextmanager
async def watching(client: ApiClient, times: WatchTimes | None = None) -> AsyncIterator[Watched]:
    seen = Watched()

    def count(by: int) -> None:
        seen.up += by

    async def sleep(seconds: float) -> None:
        seen.pauses.append(seconds)
        await asyncio.sleep(0.002)

    watch = PodWatch(
        client,
        NODE,
        store=seen.store,
        observer=WatchObserver(
            called=lambda call, code: seen.calls.append((call, code)),
            connected=lambda: count(1),
            ended=lambda: count(-1),
            failed=seen.failures.append,
        ),
        chance=lambda: 0.5,
        times=times,
        sleep=sleep,
    )
    task = asyncio.create_task(watch.run())
    try:
        yield seen
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_pods_of_this_node_are_followed(api: FakeApiServer, client: ApiClient) -> None:
    api.put(pod_json("first"))
    api.put(pod_json("elsewhere", node="worker-2"))
    async with watching(client) as seen:
        await until(lambda: seen.names == {"first"} and seen.up)
        api.put(pod_json("second"))
        api.put(pod_json("other", node="worker-2"))
        await until(lambda: seen.names == {"first", "second"})
        api.put(pod_json("second", phase="Succeeded"))
        await until(lambda: seen.names == {"first"})
        api.delete("default", "first")
        await until(lambda: seen.names == set())
    assert seen.calls == [("list", "OK"), ("watch", "OK")]
    assert set(api.authorizations) == {"Bearer secret"}
    assert [query["fieldSelector"] for _, _, query in api.requests] == [f"spec.nodeName={NODE}"] * 2
    assert (api.requests[0][2]["resourceVersion"], api.requests[1][2]["allowWatchBookmarks"]) == ("0", "true")


async def test_a_watch_that_ends_goes_on_where_a_bookmark_left_off(
    api: FakeApiServer, client: ApiClient
) -> None:
    async with watching(client) as seen:
        await until(lambda: seen.up)
        api.bookmark()
        api.bookmark()
        api.hang_up()
        await until(lambda: seen.calls.count(("watch", "OK")) == 2)
        api.put(pod_json("late"))
        await until(lambda: seen.names == {"late"})
    versions = [int(query["resourceVersion"]) for _, _, query in api.requests if "watch" in query]
    assert [call for call, _ in seen.calls].count("list") == 1
    assert versions[-1] > versions[0]


async def test_410_gone_leads_to_a_consistent_list(api: FakeApiServer, client: ApiClient) -> None:
    api.put(pod_json("gone"))
    async with watching(client) as seen:
        await until(lambda: seen.up)
        api.refuse["watch"] = 503
        api.forget_history()
        await until(lambda: ("watch", "503") in seen.calls)
        api.pods.clear()
        api.put(pod_json("new"))
        api.forget_history()
        del api.refuse["watch"]
        await until(lambda: seen.names == {"new"})
    assert ("watch", "410") in seen.calls
    assert {error.code for error in seen.failures} == {"503"}, "the list that follows tells what was missed"
    lists = [query for _, _, query in api.requests if "watch" not in query]
    assert "resourceVersion" not in lists[-1]


async def test_a_server_that_is_away_is_asked_for_ever_ever_more_rarely(
    api: FakeApiServer, client: ApiClient
) -> None:
    with FakeApiServer().serving() as url, client_of(url) as away:
        pass
    async with watching(away) as seen:
        await until(lambda: len(seen.pauses) >= 9)
    assert {error.code for error in seen.failures} == {"UNAVAILABLE"}
    assert seen.pauses[:9] == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    async with watching(client) as seen:
        await until(lambda: seen.up)


async def test_what_was_known_stays_while_the_server_is_away(api: FakeApiServer, client: ApiClient) -> None:
    api.put(pod_json("kept", {"a.com/x": "1"}))
    async with watching(client) as seen:
        await until(lambda: seen.up)
        api.refuse.update({"list": 500, "watch": 500})
        api.hang_up()
        await until(lambda: len(seen.failures) > 3)
        assert (seen.names, seen.up) == ({"kept"}, 0)
        api.refuse.clear()
        await until(lambda: seen.up)


@pytest.mark.parametrize("status", [401, 403])
async def test_without_permission_the_pauses_get_longest(
    api: FakeApiServer, client: ApiClient, status: int
) -> None:
    api.refuse["list"] = status
    async with watching(client) as seen:
        await until(lambda: len(seen.pauses) >= 11)
        del api.refuse["list"]
        await until(lambda: seen.up)
    assert seen.pauses[:11] == [*(2.0**power for power in range(9)), 300.0, 300.0]
    assert seen.failures[0].code == str(status)


async def test_a_server_that_does_not_know_its_roles_yet_is_no_trouble(
    api: FakeApiServer, client: ApiClient
) -> None:
    """As for a second after its start: then nothing is told, and it is asked again soon."""
    async with watching(client) as seen:
        await until(lambda: seen.up)
        api.refuse_once["watch"] = 403
        api.hang_up()
        await until(lambda: ("watch", "403") in seen.calls)
        await until(lambda: seen.up and seen.calls[-1] == ("watch", "OK"))
    assert seen.pauses == [1.0, 2.0]
    assert not seen.failures


async def test_a_watch_that_ends_at_once_is_no_busy_loop(api: FakeApiServer, client: ApiClient) -> None:
    async with watching(client) as seen:
        for number in range(1, 4):
            await until(lambda number=number: seen.calls.count(("watch", "OK")) == number)
            api.hang_up()
        await until(lambda: len(seen.pauses) >= 3)
    assert seen.pauses[:3] == [1.0, 2.0, 4.0]


async def test_a_silent_server_is_given_up(api: FakeApiServer, client: ApiClient) -> None:
    async with watching(client, WatchTimes(silence=0.1)) as seen:
        await until(lambda: seen.failures)
    assert seen.failures[0].code == "UNAVAILABLE"


async def test_nonsense_leads_to_a_new_list(api: FakeApiServer, client: ApiClient) -> None:
    async with watching(client) as seen:
        await until(lambda: seen.up)
        api.put({"metadata": {"namespace": "default", "name": 7}, "spec": {"nodeName": NODE}})
        await until(lambda: ("watch", "DECODE") in seen.calls)
        api.delete("default", 7)
        api.forget_history()
        await until(lambda: seen.calls[-1] == ("watch", "OK"))
    assert [call for call, _ in seen.calls].count("list") >= 2
