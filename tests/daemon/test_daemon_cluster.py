"""The daemon with an API server: who asks for what is known. When it is away, placement goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
import yaml
from daemon_site import GPU, GPUS_PER_NODE, VF, Served, Site, pod, until
from numaplace.cluster.fake import FakeApiServer
from numaplace.kubelet.emulator import ContainerSpec
from numaplace.state.placed_pods import SETTLED_SECONDS

NODE = "worker-1"


def env_of(site: Site, api: FakeApiServer) -> dict[str, str]:
    file = site.root / "kubeconfig"
    cluster = {"name": "k", "cluster": {"server": api.url}}
    context = {"name": "c", "context": {"cluster": "k", "user": "u"}}
    document = {
        "clusters": [cluster],
        "contexts": [context],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    file.write_text(yaml.safe_dump({"current-context": "c", **document}))
    return {"KUBECONFIG": str(file), "NODE_NAME": NODE}


def created(api: FakeApiServer, name: str, limits: Mapping[str, Any], phase: str = "Pending") -> None:
    """Have a pod of one container; what it does not request is what limits it, as an API server fills in."""
    amounts = {str(one): str(amount) for one, amount in limits.items()}
    resources = {"limits": amounts, "requests": amounts}
    containers = [{"name": "main", "image": "x", "resources": resources}]
    metadata = {"namespace": "default", "name": name, "uid": f"uid-{name}"}
    spec = {"nodeName": NODE, "containers": containers}
    api.put({"metadata": metadata, "spec": spec, "status": {"phase": phase}})


@asynccontextmanager
async def connected(site: Site, api: FakeApiServer, **changes: Any) -> AsyncIterator[Served]:
    site.poll_seconds = 0.1
    async with site.serving(env=env_of(site, api), **changes) as served:
        await until(lambda: served.count("numaplace_cluster_watch_connected") == 1)
        yield served


async def known(served: Served, name: str) -> None:
    await until(lambda: served.knows(name))


async def settled(served: Served) -> None:
    """Let Lists show the pods unchanged for so long that they count as placed."""
    await served.listed(2)
    served.clock.skip(SETTLED_SECONDS)


async def test_a_container_goes_where_the_rest_of_its_request_fits(site: Site, api: FakeApiServer) -> None:
    """No such container was seen before, and the VF may be asked about first: only the spec tells."""
    async with connected(site, api, strategy="most-allocated") as served:
        assert await site.nodes("fills-0", {GPU: GPUS_PER_NODE}) == {0}
        assert await site.nodes("also-on-0", {VF: 1}) == {0}
        for number in range(3):
            created(api, f"pair-{number}", {VF: 1, GPU: 1})
            await known(served, f"pair-{number}")
            assert await site.nodes(f"pair-{number}", {VF: 1, GPU: 1}) == {1}
        decisions = [line for line in served.log.events("decision") if line["pod"] == "default/pair-0"]
    assert [line["request"] for line in decisions] == [{VF: 1, GPU: 1}] * 2
    assert {line["container"] for line in decisions} == {"main"}
    assert served.log.troubles == []


async def test_only_what_a_container_requests_is_scored(site: Site, api: FakeApiServer) -> None:
    async with connected(site, api) as served:
        busy = {node: await site.nodes(f"busy-{node}", {GPU: GPUS_PER_NODE}) for node in (0,)}
        created(api, "vf-only", {VF: 1})
        await known(served, "vf-only")
        await site.admit("vf-only", {VF: 1})
        (line,) = [line for line in served.log.events("decision") if line["pod"] == "default/vf-only"]
    assert busy == {0: {0}}
    assert [one["scores"] for one in line["candidates"]] == [{VF: 1}, {VF: 1}]


async def test_pods_without_our_devices_are_ruled_out(site: Site, api: FakeApiServer) -> None:
    """Several pods are new at once, one of which asks for a VF: List alone cannot tell which."""
    created(api, "sleeper", {})
    created(api, "asker", {VF: 1})
    async with connected(site, api) as served:
        await known(served, "sleeper")
        await site.kubelet.admit(pod("sleeper", containers=(ContainerSpec("main", {}),)))
        await site.admit("asker", {VF: 1})
        (line,) = served.log.events("decision")
    assert line["pod"] == "default/asker"


async def test_a_spec_that_comes_a_moment_late_is_waited_for(site: Site, api: FakeApiServer) -> None:
    async with connected(site, api, deadline="10s") as served:
        admission = asyncio.create_task(site.admit("late", {VF: 1}))
        await asyncio.sleep(0)
        created(api, "late", {VF: 1})
        await admission
        (line,) = served.log.events("decision")
    assert line["request"] == {VF: 1}


async def test_a_spec_that_does_not_come_is_done_without(site: Site, api: FakeApiServer) -> None:
    """As that of a static pod."""
    async with connected(site, api, deadline="1s") as served:
        assert await site.nodes("static", {VF: 1})
        (waited,) = served.log.events("decision")
        api.refuse.update({"list": 503, "watch": 503})
        api.hang_up()
        await until(lambda: served.count("numaplace_cluster_watch_connected") == 0)
        assert await site.nodes("away", {VF: 1})
        (_, line) = served.log.events("decision")
    assert (waited["request"], line["request"]) == (None, None)
    assert waited["duration_ms"] > 100, "while the watch stands, a tenth of the deadline"
    assert line["duration_ms"] < waited["duration_ms"]
    assert served.count("numaplace_fallbacks_total") == 0


async def test_placement_goes_on_without_the_api_server(site: Site, api: FakeApiServer) -> None:
    async with connected(site, api) as served:
        api.refuse.update({"list": 503, "watch": 503})
        api.hang_up()
        await until(lambda: served.count("numaplace_cluster_watch_connected") == 0)
        placed = {number: await site.nodes(f"p{number}", {VF: 1}) for number in range(4)}
        assert sorted(node for nodes in placed.values() for node in nodes) == [0, 0, 1, 1]
        trouble = await until(
            lambda: served.log.events("pods cannot be watched; will retry, decisions use PodResources alone")
        )
        assert len(trouble) == 1
    assert served.count("numaplace_fallbacks_total") == 0


async def test_without_permission_the_log_says_what_to_allow(site: Site, api: FakeApiServer) -> None:
    api.refuse["list"] = 403
    async with site.serving(env=env_of(site, api)) as served:
        (line,) = await until(lambda: served.log.troubles)
        assert await site.nodes("p", {VF: 1})
    assert line["advice"].startswith("allow list and watch of pods")


@pytest.mark.parametrize(("enabled", "level"), [("auto", "info"), ("true", "warning")])
async def test_outside_a_cluster_the_part_is_off(site: Site, enabled: str, level: str) -> None:
    async with site.serving(env={}, cluster={"enabled": enabled}) as served:
        (line,) = served.log.events("the API server is not used")
        assert await site.nodes("p", {VF: 1})
        assert "numaplace_cluster_watch_connected" not in {
            line.partition(" ")[0] for line in served.metrics.render()[0].decode().splitlines()
        }
    assert line["level"] == level
    assert "not in a pod" in line["reason"]


async def test_switched_off_nothing_is_asked(site: Site, api: FakeApiServer) -> None:
    async with site.serving(env=env_of(site, api), cluster={"enabled": "false"}) as served:
        assert await site.nodes("p", {VF: 1})
    assert api.requests == []
    assert served.log.troubles == []


async def test_the_nodes_name_has_to_be_known(site: Site, api: FakeApiServer) -> None:
    env = {**env_of(site, api), "NODE_NAME": ""}
    async with site.serving(env=env, cluster={"enabled": "true"}) as served:
        (line,) = served.log.events("the API server is not used")
    assert "NODE_NAME is not set" in line["reason"]


async def test_pods_get_events_that_say_where_and_why(site: Site, api: FakeApiServer) -> None:
    async with connected(site, api) as served:
        for number in range(3):
            created(api, f"p{number}", {VF: 1})
            await known(served, f"p{number}")
            await site.admit(f"p{number}", {VF: 1})
        # Each pod proves its predecessor placed; the last one is told when nothing is added any more.
        # Counted when the server's answer is there, which has the Event before that.
        await settled(served)
        await until(lambda: served.count("numaplace_events_total", result="sent") == 3)
        assert len(api.events) == 3
    found = {event["involvedObject"]["name"]: event for event in api.events.values()}
    assert {event["involvedObject"]["uid"] for event in found.values()} == {"uid-p0", "uid-p1", "uid-p2"}
    assert {event["reason"] for event in found.values()} == {"NUMAPlaced"}
    assert "on NUMA 1. intel.com/vf: least-allocated: NUMA 1 scores 1, NUMA 0 12" in found["p1"]["message"]
    assert found["p1"]["message"].endswith("without scores it would be NUMA 0")


async def test_a_container_on_two_nodes_gets_a_warning(site: Site, api: FakeApiServer) -> None:
    async with connected(site, api) as served:
        created(api, "wide", {GPU: GPUS_PER_NODE + 1})
        await known(served, "wide")
        await site.admit("wide", {GPU: GPUS_PER_NODE + 1})
        await settled(served)
        await until(lambda: api.events)
    ((_, event),) = api.events.items()
    assert (event["reason"], event["type"]) == ("NUMASplit", "Warning")


async def test_events_can_be_switched_off(site: Site, api: FakeApiServer) -> None:
    async with connected(site, api, cluster={"events": False}) as served:
        for number in range(2):
            created(api, f"p{number}", {VF: 1})
            await known(served, f"p{number}")
            await site.admit(f"p{number}", {VF: 1})
    assert "POST" not in {method for method, _, _ in api.requests}


async def test_pods_of_a_former_daemon_are_not_told_of_again(site: Site, api: FakeApiServer) -> None:
    async with connected(site, api):
        created(api, "old", {VF: 1})
        await site.admit("old", {VF: 1})
    before = len(api.events)
    async with connected(site, api) as served:
        for name in ("new", "newer"):
            created(api, name, {VF: 1})
            await known(served, name)
            await site.admit(name, {VF: 1})
        await until(lambda: len(api.events) > before)
    assert "old" not in {event["involvedObject"]["name"] for event in api.events.values()}


async def test_refused_events_are_counted_and_told_once(site: Site, api: FakeApiServer) -> None:
    api.refuse["events"] = 403
    async with connected(site, api) as served:
        for number in range(3):
            created(api, f"p{number}", {VF: 1})
            await known(served, f"p{number}")
            await site.admit(f"p{number}", {VF: 1})
        # The first one is tried four times; the pauses between are 10.5 s at most.
        await until(lambda: served.count("numaplace_events_total", result="failed") >= 2)
        (line,) = served.log.troubles
    assert line["advice"] == "allow create of events, or set cluster.events: false"


async def test_switching_the_part_takes_a_new_start(site: Site, api: FakeApiServer) -> None:
    async with connected(site, api) as served:
        off = site.config(cluster={"enabled": False})
        assert not await served.node.apply(off)
        assert await served.node.apply(site.config(strategy="most-allocated"))
