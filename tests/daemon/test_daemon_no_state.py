"""PodResources that misbehaves: every pod still starts, in time, and what was lacking is counted."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from daemon_site import GPU, LIMIT_SECONDS, VF, Served, Site, pod, preferred, until
from numaplace.kubelet.emulator import NO_FAULTS, ContainerSpec, Faults, RateLimit


@contextmanager
def listener(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
        made.listen(64)
        yield made


def talk_nonsense(listening: socket.socket) -> None:
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        with connection:
            connection.sendall(b"\xff" * 64)


@pytest.fixture(params=["missing", "silent", "garbage"])
def broken(request: pytest.FixtureRequest, root: Path) -> Iterator[Path]:
    path = root / "broken.sock"
    if request.param == "missing":
        yield path
        return
    with listener(path) as listening:
        if request.param == "silent":
            yield path
            return
        thread = threading.Thread(target=talk_nonsense, args=(listening,))
        thread.start()
        yield path
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


async def admit_all_kinds(site: Site) -> None:
    for n in range(3):
        await site.admit(f"both{n}", {VF: 1, GPU: 1})
        assert len(await site.nodes(f"pair{n}", {VF: 2})) == 1, "one container, one node, without state too"
    layers = pod(
        "layers",
        init_containers=(ContainerSpec("prepare", {VF: 1}),),
        containers=(ContainerSpec("main", {VF: 1}),),
    )
    assert (await site.kubelet.admit(layers)).admitted
    burst = await asyncio.gather(*(site.kubelet.admit(pod(f"burst{n}", {GPU: 1})) for n in range(4)))
    assert all(one.admitted for one in burst)


async def test_no_state_at_all(site: Site, broken: Path) -> None:
    kubelet = {**site.document()["kubelet"], "podResourcesSocket": str(broken)}
    # Half of it is for the List that does not come; what is left has to do on a busy machine.
    async with site.serving(kubelet=kubelet, deadline="600ms") as served:
        await admit_all_kinds(site)
        decided = served.count("numaplace_decisions_total", outcome="placed")
        assert served.count("numaplace_fallbacks_total", reason="snapshot") == decided > 0
        assert served.count("numaplace_decisions_total", outcome="fallback") == 0
        [outage] = await until(lambda: served.log.troubles)
        assert outage["event"].startswith("PodResources List fails"), "told once, not per pod"


async def test_no_state_holds_up_the_start_once_and_not_once_for_each_resource(
    site: Site, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("numaplace.daemon.resources.host_supply.FIRST_LIST_SECONDS", 1.0)
    resources = []
    for n in range(6):
        file = root / f"widgets{n}.yaml"
        file.write_text(f"[{{id: w{n}}}]")
        resources.append({"name": f"example.com/widget{n}", "declared": {"file": str(file)}})
    kubelet = {**site.document()["kubelet"], "podResourcesSocket": str(root / "missing.sock")}
    began = time.monotonic()
    async with site.serving(kubelet=kubelet, resources=resources, wait=False) as served:
        await until(lambda: all(served.node.resources.registered.values()))
        assert time.monotonic() - began < 4.0


async def stale(site: Site, served: Served, faults: Faults) -> None:
    """Have one good List, then the faults."""
    await until(lambda: served.count("numaplace_podresources_calls_total", method="List", code="OK"))
    site.kubelet.faults = faults
    await admit_all_kinds(site)


@pytest.mark.parametrize("code", ["UNAVAILABLE", "RESOURCE_EXHAUSTED", "UNIMPLEMENTED", "INTERNAL"])
async def test_errors_of_a_list(site: Site, code: str) -> None:
    async with site.serving() as served:
        await stale(site, served, Faults(errors={"List": code}))
        assert served.count("numaplace_podresources_calls_total", method="List", code=code) > 0
        assert served.count("numaplace_fallbacks_total", reason="stale") > 0
        assert {line["code"] for line in served.log.troubles} == {code}
        site.kubelet.faults = NO_FAULTS
        await site.admit("afterwards", {VF: 1})
        assert served.log.lines[-2]["event"] == "PodResources answers again"
        assert served.log.lines[-1]["degraded"] is None


async def test_own_grants_count_although_no_list_shows_them(site: Site) -> None:
    async with site.serving(weights="cpu=0,memory=0") as served:
        await until(lambda: served.count("numaplace_podresources_calls_total", method="List", code="OK"))
        site.kubelet.faults = Faults(errors={"List": "UNAVAILABLE"})
        landed = [await site.nodes(f"p{n}", {GPU: 1}) for n in range(6)]
        assert landed == [{0}, {1}] * 3


async def test_a_slow_list_is_not_waited_for_beyond_the_deadline(site: Site) -> None:
    site.kubelet.faults = Faults(delays_seconds={"List": 2 * LIMIT_SECONDS})
    async with site.serving(deadline="1s") as served, site.plugin(VF) as stub:
        vfs = sorted(site.kubelet.allocatable(VF))
        assert len(await preferred(stub, vfs, size=2)) == 2
        assert served.count("numaplace_fallbacks_total", resource=VF, reason="snapshot") == 1


async def test_the_deadline_holds_though_the_poller_hangs(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site.serving(deadline="100ms") as served, site.plugin(VF) as stub:

        async def hang(**_: Any) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(served.poller, "live", hang)
        vfs = sorted(site.kubelet.allocatable(VF))
        assert await preferred(stub, vfs, vfs[9:10], size=2) == [vfs[9], vfs[0]]
        assert served.count("numaplace_fallbacks_total", resource=VF, reason="deadline") == 1
        assert served.count("numaplace_decisions_total", resource=VF, outcome="fallback") == 1


async def test_a_failing_decision_is_an_answer_too(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async with site.serving() as served:
        monkeypatch.setattr("numaplace.daemon.preference.decider.place", lambda *_, **__: 1 / 0)
        assert (await site.admit("p", {VF: 2})).containers["main"][VF]
        assert served.count("numaplace_fallbacks_total", resource=VF, reason="error") == 1
        [failure] = served.log.events("decision failed")
        assert isinstance(failure["exc"], ZeroDivisionError)


async def test_the_kubelets_rate_limit_shared_with_others(site: Site) -> None:
    site.kubelet.faults = Faults(rate_limit=RateLimit(per_second=5, burst=2))
    async with site.serving():
        await admit_all_kinds(site)


async def test_a_stale_list_names_nobody(site: Site) -> None:
    """A pod of the last good List that lacks the resource is not the one that asks now."""
    async with site.serving() as served:
        await site.admit("bystander", {GPU: 1}, affinity=0b10)
        await site.admit("seen", {GPU: 1})
        site.kubelet.faults = Faults(errors={"List": "UNAVAILABLE"})
        await site.admit("asker", {VF: 1})
        line = served.log.events("decision")[-1]
        assert (line["resource"], line["pod"], line["held"]) == (VF, None, ())
