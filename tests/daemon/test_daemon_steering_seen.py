"""What users see of steering: the page /steering, the log, Events, inspect."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from daemon_site import GPU, GPUS_PER_NODE, Served, Site, http_anywhere, until
from numaplace.cli.console import Console
from numaplace.cli.main import main
from numaplace.cluster.fake import FakeApiServer
from steering_site import placed, steered, steering, steering_site
from test_daemon_cluster import created, env_of, known


@pytest.fixture
async def site(root: Path) -> AsyncIterator[Site]:
    made = steering_site(root)
    async with made.kubelet:
        yield made


async def page_of(served: Served) -> dict[str, Any]:
    status, text = await served.page("/steering")
    assert status == 200
    return dict(json.loads(text))


async def test_the_page_and_inspect_show_withheld_devices_where_they_are(site: Site) -> None:
    async with steered(site, http=http_anywhere()) as served:
        assert (await page_of(served))["withheld"] == [], "nothing to gain on an empty node"
        await placed(site, "first", {GPU: 1})
        page = await page_of(served)
        (withheld,) = page["withheld"]
        assert (withheld["resource"], withheld["numaNodes"]) == (GPU, [0])
        assert len(withheld["devices"]) == GPUS_PER_NODE - 1
        assert {site.truth[one["id"]] for one in withheld["devices"]} == {0}
        assert (page["kubelet"]["policy"], page["requestsSource"]) == ("single-numa-node", "declared")
        shown = await inspected(site, served)
    assert shown["steering"] == page
    gpu = next(one for one in shown["resources"] if one["name"] == GPU)
    assert [node["free"] for node in gpu["numaNodes"]] == [GPUS_PER_NODE - 1, GPUS_PER_NODE]


async def inspected(site: Site, served: Served) -> dict[str, Any]:
    console = Console(out=io.StringIO(), err=io.StringIO(), env={})
    argv = ["inspect", "--socket", str(site.kubelet.pod_resources_socket), "-o", "json"]
    argv += ["--sysfs", str(site.host.roots.sysfs), "--daemon", f"http://127.0.0.1:{served.node.port}"]
    assert await asyncio.to_thread(main, argv, console) == 0, console.err.getvalue()
    return dict(json.loads(console.out.getvalue()))


async def test_the_page_of_steering_that_is_off(site: Site) -> None:
    async with steered(site, http=http_anywhere(), steering={"mode": "off"}) as served:
        await placed(site, "first", {GPU: 1})
        page = await page_of(served)
    assert (page["mode"], page["withheld"]) == ("off", [])


async def test_the_page_says_why_the_kubelet_is_not_known(site: Site) -> None:
    kubelet = site.document()["kubelet"]
    async with site.serving(**steering(site, kubelet=kubelet, http=http_anywhere())) as served:
        await until(lambda: served.node.steering_status().known.problem)
        page = await page_of(served)
        while not (page["refusals"] and page["refusals"][0]["reason"] == "policy-unknown"):
            await asyncio.sleep(0.02)
            page = await page_of(served)
    assert page["kubelet"]["known"] is False
    assert "kubelet.configFile is not set" in page["refusals"][0]["text"]


async def test_the_log_says_what_steering_changed(site: Site) -> None:
    async with steered(site) as served:
        await placed(site, "first", {GPU: 1})
        assert served.log.events("steered") == []
        admission = await placed(site, "second", {GPU: 1})
        (line,) = await until(lambda: served.log.events("steered"))
    assert line["ids"] == list(admission.containers["main"][GPU])
    assert (line["numa"], line["instead_of"]) == ((1,), (0,))
    assert line["why"] == "steered: NUMA 1 instead of NUMA 0 (least-allocated: NUMA 1 scores 1, NUMA 0 25)"


async def test_the_event_says_it_too_and_only_where_it_is_so(site: Site) -> None:
    api = FakeApiServer()
    with api.serving():
        changes = steering(site)
        async with site.serving(env=env_of(site, api), **changes) as served:
            await until(lambda: served.count("numaplace_cluster_watch_connected") == 1)
            messages = []
            for name in ("first", "second"):
                created(api, name, {GPU: 1})
                await known(served, name)
                await until(lambda: served.node.steering_status().decision.requests)
                assert (await placed(site, name, {GPU: 1})).admitted
                messages.append(await until(lambda who=name: message_for(api, who)))
    assert "steered" not in messages[0]
    assert messages[1].endswith(
        "nvidia.com/gpu: steered: NUMA 1 instead of NUMA 0 (least-allocated: NUMA 1 scores 1, NUMA 0 25)"
    )


def message_for(api: FakeApiServer, pod: str) -> str:
    found = (event for event in api.events.values() if event["involvedObject"]["name"] == pod)
    return next((str(event["message"]) for event in found), "")


async def test_devices_that_are_granted_anew_are_not_told_of_as_before(site: Site) -> None:
    async with steered(site) as served:
        await placed(site, "first", {GPU: 1})
        admission = await placed(site, "second", {GPU: 1})
        ids = admission.containers["main"][GPU]
        await until(lambda: served.node._steerer.without_steering(GPU, ids))
        await served.node._steerer.deliver_next(GPU, ids, since_seconds=0.0)
        assert served.node._steerer.without_steering(GPU, ids) is None


async def test_a_kubelet_that_has_not_answered_yet_is_not_judged(site: Site) -> None:
    changes = steering(site, http=http_anywhere())
    changes["kubelet"]["podResourcesSocket"] = str(site.root / "not-there.sock")
    async with site.serving(**changes) as served:
        refusals = (await page_of(served))["refusals"]
        while "PodResources has not answered yet" not in refusals[0]["text"]:
            await asyncio.sleep(0.02)
            refusals = (await page_of(served))["refusals"]
    assert [one["reason"] for one in refusals] == ["state-unknown"]
