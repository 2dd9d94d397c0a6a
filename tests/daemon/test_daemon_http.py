"""The pages: metrics after some decisions, health, and what they say when something is missing."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from daemon_site import GPU, SIZES, VF, Site, fetch, free_port, http_anywhere, total, until
from numaplace.daemon.runtime.http import Pages, from_here, serve_http
from numaplace.errors import InputError


async def test_metrics_after_a_few_decisions(site: Site) -> None:
    async with site.serving(
        strategy="most-allocated", weights="cpu=0,memory=0", http=http_anywhere()
    ) as served:
        await site.admit("there", {GPU: 1}, affinity=0b10)
        await site.admit("packed", {GPU: 1})
        await site.admit("with-vf", {GPU: 1, VF: 2}, resource_order=(GPU, VF))
        await site.admit("all-vfs", {VF: SIZES[VF] - 2})
        # The kubelet shows a grant only once Allocate is answered; the next List has it.
        found = await served.scrape()

    def value(name: str, **labels: str) -> float:
        return total(found, f"numaplace_{name}", **labels)

    placed = {"strategy": "most-allocated", "outcome": "placed"}
    assert value("decisions_total", resource=GPU, **placed) == 3
    assert value("decisions_total", resource=VF, **placed) == 1
    assert value("decisions_total", resource=VF, outcome="all") == 1
    assert value("alignments_total", resource=GPU, alignment="one-node") == 3
    assert value("alignments_total", resource=VF, alignment="split") == 1
    assert value("decision_duration_seconds_count", resource=GPU) == 3
    assert value("numa_score_selection_total", numa_allocation_strategy="most-allocated") == 2
    assert value("allocated", resource=GPU, numa_node="1") == 3
    assert value("allocatable", resource=GPU, numa_node="1") == 4
    assert value("score", resource=GPU, numa_node="1") == 75
    assert value("score", resource=GPU, numa_node="0") == 1
    assert value("largest_single_node_fit", resource=GPU) == 4
    assert value("devices", resource=VF, health="healthy") == SIZES[VF]
    assert value("registrations_total", resource=GPU, result="accepted") == 1
    assert value("registered") == 2
    assert value("podresources_calls_total", method="List", code="OK") >= 4
    assert value("podresources_calls_total", method="GetAllocatableResources", code="OK") >= 1
    assert 0 <= value("snapshot_age_seconds") < 10
    assert value("numa_container_count", numa_node="1") >= 3
    assert value("fallbacks_total") == value("task_restarts_total") == 0
    assert value("build_info") == 1


async def test_the_gauges_follow_pods_that_come_and_go(site: Site) -> None:
    async with site.serving(http=http_anywhere(), pollInterval="500ms") as served:

        async def shown(devices: int) -> None:
            end = time.monotonic() + 10
            while total(await served.scrape(), "numaplace_allocated", resource=GPU) != devices:
                assert time.monotonic() < end

        await site.admit("p", {GPU: 2}, affinity=0b10)
        await shown(2)
        await until(lambda: any(pod.containers[0].devices for pod in served.node._poller.latest.pods))
        await site.kubelet.remove(("default", "p"))
        await shown(0)


async def test_ready_only_while_the_kubelet_knows_all_resources(site: Site) -> None:
    async with site.serving(http=http_anywhere()) as served:
        await until(lambda: served.node._poller.latest)
        assert await served.page("/readyz") == (200, "ready\n")
        await site.kubelet.stop()
        await until(lambda: not any(served.node.resources.registered.values()))
        status, text = await served.page("/readyz")
        assert status == 503
        assert VF in text
        assert (await served.page("/healthz")) == (200, "ok\n"), "alive although not ready"
        assert (await served.page("/other"))[0] == 404


class Trouble:
    """Pages that go wrong on demand."""

    def __init__(self) -> None:
        self.failures: list[Exception] = []
        self.broken = False

    def ready(self) -> tuple[bool, str]:
        if self.broken:
            raise ZeroDivisionError
        return True, "ready"

    @property
    def pages(self) -> Pages:
        return Pages(lambda: None, lambda: (b"m 1\n", "text/plain"), self.ready, self.failures.append)


@pytest.fixture
def trouble() -> Trouble:
    return Trouble()


async def test_a_blocked_event_loop_is_not_healthy(trouble: Trouble) -> None:
    with serve_http(("127.0.0.1", 0), trouble.pages, loop_answers_seconds=0.05) as port:
        asking = [asyncio.create_task(fetch(port, path)) for path in ("/healthz", "/readyz", "/metrics")]
        await asyncio.sleep(0)
        time.sleep(0.6)  # noqa: ASYNC251 - blocking the loop is the point
        statuses = [status for status, _ in await asyncio.gather(*asking)]
    assert statuses == [503, 503, 200], "metrics are still shown"


async def test_a_page_that_fails_is_told_and_others_go_on(trouble: Trouble) -> None:
    trouble.broken = True
    with serve_http(("127.0.0.1", 0), trouble.pages) as port:
        assert (await fetch(port, "/readyz"))[0] == 500
        assert (await fetch(port, "/metrics")) == (200, "m 1\n")
    assert [type(one) for one in trouble.failures] == [ZeroDivisionError]


async def test_a_page_of_json_is_looked_up_on_the_loop_and_written_beside_it(trouble: Trouble) -> None:
    threads: list[int] = []

    def look() -> Callable[[], object]:
        threads.append(threading.get_ident())

        def write() -> object:
            threads.append(threading.get_ident())
            return {"a": [1]}

        return write

    pages = replace(trouble.pages, documents={"/steering": look})
    with serve_http(("127.0.0.1", 0), pages) as port:
        status, text = await fetch(port, "/steering?x=1")
        assert (status, json.loads(text)) == (200, {"a": [1]})
        status, text = await fetch(port, "/other")
        assert (status, "/steering" in text) == (404, True)
    assert threads[0] == threading.get_ident() != threads[1]


@pytest.mark.parametrize(
    ("client", "own", "local"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("::ffff:127.0.0.1", "::ffff:127.0.0.1", True),
        ("::1", "::1", True),
        ("10.0.0.5", "10.0.0.5", True),
        ("::ffff:10.0.0.5", "::ffff:10.0.0.5", True),
        ("fe80::1%eth0", "fe80::1%eth0", True),
        ("10.0.0.6", "10.0.0.5", False),
        ("::ffff:10.0.0.6", "::ffff:10.0.0.5", False),
        ("2001:db8::1", "2001:db8::2", False),
    ],
)
def test_documents_are_for_this_machine(client: str, own: str, local: bool) -> None:
    assert from_here(client, own) is local


async def test_clients_that_go_away_are_no_event(trouble: Trouble, capfd: pytest.CaptureFixture[str]) -> None:
    with serve_http(("127.0.0.1", 0), trouble.pages) as port:
        for text in (b"GET /metrics HTTP/1.1\r\n", b"\xff\xff\r\n\r\n", b""):
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.sendall(text)
        assert (await fetch(port, "/metrics"))[0] == 200
    assert capfd.readouterr().err == ""


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")
async def test_no_host_is_every_address(trouble: Trouble) -> None:
    with serve_http(("", 0), trouble.pages) as port:
        for address in ("127.0.0.1", "::1"):
            with socket.create_connection((address, port), timeout=5):
                pass


async def test_a_taken_port_is_the_users_error(trouble: Trouble) -> None:
    port = free_port()
    with (
        serve_http(("127.0.0.1", port), trouble.pages),
        pytest.raises(InputError, match=f"http.address: cannot listen on 127.0.0.1:{port}"),
        serve_http(("127.0.0.1", port), trouble.pages),
    ):
        pass
