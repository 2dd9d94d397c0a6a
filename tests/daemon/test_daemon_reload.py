"""SIGHUP: accepted in place, by a new start, or refused with nothing changed."""

from __future__ import annotations

import os
import signal
import socket
import sys
from asyncio import create_subprocess_exec
from asyncio.subprocess import PIPE
from typing import Any

import pytest
from daemon_site import (
    GPU,
    SIZES,
    SOURCES,
    VF,
    VFS_PER_NODE,
    Site,
    fetch,
    free_port,
    http_anywhere,
    samples,
    total,
    until,
)
from numaplace.errors import InputError
from numaplace.kubelet.emulator import Faults, Registration
from numaplace.model.names import ResourceName
from numaplace.simulate.process import DaemonProcess, running_daemon

PLAIN = {"weights": "cpu=0,memory=0"}


def registrations(site: Site) -> tuple[Registration, ...]:
    return site.kubelet.registrations


async def test_the_strategy_changes_without_a_stream_gap(site: Site) -> None:
    async with site.serving(strategy="most-allocated", **PLAIN) as served:
        await site.admit("there", {VF: 1}, affinity=0b10)
        assert await site.nodes("packed", {VF: 1}) == {1}
        before = site.kubelet.endpoints, registrations(site)
        assert await served.node.apply(site.config(strategy="least-allocated", **PLAIN))
        assert await site.nodes("spread", {VF: 1}) == {0}
        assert await served.node.apply(site.config(strategy="most-allocated", weights="intel.com/vf=0"))
        assert (site.kubelet.endpoints, registrations(site)) == before
        by_strategy = [line["strategy"] for line in served.log.events("decision")[1:]]
        assert by_strategy == ["most-allocated", "least-allocated"]


async def test_a_resource_that_goes_takes_its_series_along_and_comes_back(site: Site) -> None:
    whole = site.document()["resources"]
    async with site.serving(http=(http := http_anywhere())) as served:
        await site.admit("p", {VF: 1, GPU: 1})
        await served.scrape()
        assert await served.node.apply(site.config(resources=whole[:1], http=http))
        await site.kubelet.wait_until(lambda: [one.resource for one in site.kubelet.endpoints] == [VF])
        own = {name for name, labels in await served.scrape() if ("resource", GPU) in labels}
        assert not own & {
            "numaplace_decisions_total", "numaplace_devices", "numaplace_registered",
            "numaplace_registrations_total", "numaplace_decision_duration_seconds_count",
        }  # fmt: skip
        await site.admit("still-served", {VF: 1})
        assert await served.node.apply(site.config(http=http))
        await site.registered()
        await site.admit("again", {GPU: 1})
        assert len(registrations(site)) == 3, "the resource that stayed was left alone"


async def test_a_resource_with_other_selectors_is_made_anew(site: Site) -> None:
    resources = site.document()["resources"]
    resources[0]["sriov"] = {"pfNames": ["ens1"]}
    async with site.serving() as served:
        assert await served.node.apply(site.config(resources=resources))
        await site.kubelet.wait_registered(VF, count=8)
        assert {site.truth[one] for one in site.kubelet.allocatable(VF)} == {1}


@pytest.mark.parametrize("finds", ["nothing", "a broken file"])
async def test_devices_that_a_resource_gives_up_are_free_for_another(site: Site, finds: str) -> None:
    """Whatever the first look of the new source brings."""
    (file := site.root / "devices.yaml").write_text("- {")
    source = {"sriov": {"pfNames": ["ens9"]}} if finds == "nothing" else {"declared": {"file": str(file)}}
    taker = ResourceName("intel.com/taker")
    whole = {"sriov": {"pfNames": ["ens0"]}}
    async with site.serving(resources=[{"name": VF, **whole}], wait=False) as served:
        await site.kubelet.wait_registered(VF, count=8)
        resources = [{"name": VF, **source}, {"name": taker, **whole}]
        assert await served.node.apply(site.config(resources=resources))
        await site.kubelet.wait_registered(taker, count=8)


@pytest.mark.parametrize("left", [{"pfNames": ["ens1"]}, SOURCES[VF]["sriov"]], ids=["the rest", "all"])
async def test_a_new_resource_before_one_that_changes_has_its_devices_at_once(
    site: Site, left: dict[str, Any]
) -> None:
    """A device that several entries match belongs to the first one."""
    taker = ResourceName("intel.com/taker")
    async with site.serving(
        resources=[{"name": VF, "sriov": {"drivers": ["iavf", "none"]}}], rescanInterval="1h"
    ) as served:
        resources = [{"name": taker, "sriov": {"pfNames": ["ens0"]}}, {"name": VF, "sriov": left}]
        assert await served.node.apply(site.config(resources=resources, rescanInterval="1h"))
        await site.kubelet.wait_registered(taker, count=VFS_PER_NODE)
        await site.kubelet.wait_registered(VF, count=VFS_PER_NODE)


@pytest.mark.parametrize("keeps", [["ens1"], []])
async def test_a_device_that_a_pod_holds_is_not_offered_by_another_resource(
    site: Site, keeps: list[str]
) -> None:
    """The kubelet knows devices by resource, and would give it to a second pod."""
    taker = ResourceName("intel.com/taker")
    site.poll_seconds = 0.2
    async with site.serving(resources=[{"name": VF, **SOURCES[VF]}]) as served:
        admission = await site.admit("holder", {VF: 1}, affinity=0b01)
        [held] = admission.containers["main"][VF]
        await served.listed(2)
        resources = [{"name": VF, "sriov": {"pfNames": keeps}}] if keeps else []
        resources.append({"name": taker, "sriov": {"pfNames": ["ens0"]}})
        assert await served.node.apply(site.config(resources=resources))
        await site.kubelet.wait_registered(taker, count=VFS_PER_NODE - 1)
        assert held not in site.kubelet.published(taker)
        [line] = [one for one in served.log.events("devices left out") if one["resource"] == taker]
        assert line["reasons"][held] == f"held by a pod as {VF}"
        site.kubelet.end(("default", "holder"))
        await served.listed(2)
        await served.rescan(taker)
        await site.kubelet.wait_registered(taker, count=VFS_PER_NODE)


async def test_a_start_with_another_name_offers_no_device_that_a_pod_holds(site: Site) -> None:
    """Not even before the first List: a pod may be waiting for one."""
    taker = ResourceName("intel.com/taker")
    async with site.serving(resources=[{"name": VF, **SOURCES[VF]}]):
        held = (await site.admit("holder", {VF: 1})).containers["main"][VF]
    offered: set[str] = set()
    site.kubelet.on_publish = lambda resource: offered.update(site.kubelet.published(resource))
    site.kubelet.faults = Faults(delays_seconds={"List": 0.2})
    async with site.serving(resources=[{"name": taker, **SOURCES[VF]}], wait=False):
        await site.kubelet.wait_registered(taker, count=SIZES[VF] - 1)
    assert offered
    assert offered.isdisjoint(held)


async def test_nothing_is_half_applied(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A resource that cannot be made is found out before any is stopped."""
    whole = site.document()["resources"]
    async with site.serving(resources=whole[:1], strategy="most-allocated") as served:
        before = site.kubelet.endpoints

        def refuse(*_: Any, **__: Any) -> None:
            raise InputError("no room for the socket's name")

        monkeypatch.setattr("numaplace.daemon.resources.in_service.RunningResource", refuse)
        with pytest.raises(InputError):
            await served.node.apply(site.config(resources=whole[1:]))
        assert site.kubelet.endpoints == before
        await site.admit("p", {VF: 1})
        assert served.log.events("decision")[0]["strategy"] == "most-allocated"


async def reloaded(daemon: DaemonProcess, event: str) -> dict[str, Any]:
    since = len(daemon.lines)
    daemon.send(signal.SIGHUP)
    return dict(
        await daemon.wait_line(lambda line: event in str(line["event"]), since=since, timeout_seconds=60)
    )


async def test_by_signal(site: Site) -> None:
    http = http_anywhere()
    config = site.write(site.document(http=http, strategy="most-allocated", **PLAIN))
    async with running_daemon(config) as daemon:
        await site.registered()
        await site.admit("there", {VF: 1}, affinity=0b10)
        before = site.kubelet.endpoints

        config.write_text(config.read_text() + "\nstrategie: none\n")
        line = await reloaded(daemon, "reload refused")
        assert "strategie" in str(line["problems"])
        assert await site.nodes("packed", {VF: 1}) == {1}

        site.write(site.document(http=http, strategy="least-allocated", **PLAIN))
        await reloaded(daemon, "reloaded")
        assert await site.nodes("spread", {VF: 1}) == {0}
        assert site.kubelet.endpoints == before

        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            site.write(site.document(http={"address": address}, strategy="most-allocated", **PLAIN))
            line = await reloaded(daemon, "reload refused")
            assert "cannot listen" in str(line["problems"])
        await site.registered()
        assert await site.nodes("as-before", {VF: 2}) == {0}, "the former configuration is served again"

        other = free_port()
        site.write(site.document(http={"address": f"127.0.0.1:{other}"}, **PLAIN))
        await reloaded(daemon, "reloaded")
        await until(lambda: len(site.kubelet.endpoints) == len(SIZES))
        await site.registered()
        _, page = await fetch(other, "/metrics")
        found = samples(page)
        assert total(found, "numaplace_reloads_total", result="accepted") == 2
        assert total(found, "numaplace_reloads_total", result="refused") == 2


@pytest.mark.parametrize("problem", ["taken", "long"])
async def test_what_cannot_be_served_ends_the_start_with_a_sentence(site: Site, problem: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        changes: dict[str, Any] = {"http": {"address": f"127.0.0.1:{taken.getsockname()[1]}"}}
        says = "http.address: cannot listen on 127.0.0.1"
        if problem == "long":
            directory = site.root / ("d" * 80)
            changes = {"kubelet": {**site.document()["kubelet"], "devicePluginDirectory": str(directory)}}
            says = "choose a shorter directory"
        config = site.write(site.document(**changes))
        environment = {key: value for key, value in os.environ.items() if not key.startswith("NUMAPLACE_")}
        process = await create_subprocess_exec(
            sys.executable, "-m", "numaplace", "run", "--config", str(config), stderr=PIPE, env=environment
        )
        _, text = await process.communicate()
        assert process.returncode == 2
        assert says in text.decode().splitlines()[-1]
        assert "Traceback" not in text.decode()
