"""What goes wrong around steering: refused pods, a kubelet that restarts, lists that are not taken."""

from __future__ import annotations

import asyncio
import json

import pytest
from daemon_site import GPU, VF, Clock, RecordedLog, Served, until
from numaplace.daemon.node import Node
from numaplace.daemon.steering.suspension import BreakerBox
from numaplace.daemon.steering.times import Times
from numaplace.engine.options import PolicyName
from numaplace.errors import NumaplaceError
from numaplace.kubelet.checkpoint import NAME as CHECKPOINT
from numaplace.metrics.metrics import Metrics
from steering_site import (
    hidden,
    home,
    placed,
    published,
    quiet,
    reasons,
    steered,
    steering,
    steering_site,
)
from test_daemon_cluster import NODE, created, env_of

GPUS = {"requests": [{GPU: 1, "cpu": 2, "memory": "2Gi"}]}
NO_DECLARED = {"requests": []}


@pytest.fixture
async def site(root):
    made = steering_site(root)
    async with made.kubelet:
        yield made


def refuse(api, name, limits, *, reason="TopologyAffinityError", phase="Failed"):
    """Have the API server tell of a pod that the kubelet has refused."""
    amounts = {"limits": {str(one): str(amount) for one, amount in limits.items()}}
    api.put(
        {
            "metadata": {"namespace": "default", "name": name, "uid": f"uid-{name}"},
            "spec": {
                "nodeName": NODE,
                "containers": [{"name": "main", "image": "x", "resources": amounts}],
            },
            "status": {"phase": phase, "reason": reason},
        }
    )


async def watching(served):
    await until(lambda: served.count("numaplace_cluster_watch_connected") == 1)


async def test_a_refused_pod_opens_the_circuit_breaker(site, api):
    refuse(api, "before-our-time", {GPU: 1})
    async with steered(site, env=env_of(site, api), steering={"backoff": "1m"} | GPUS) as served:
        await watching(served)
        await placed(site, "p0", {GPU: 1})
        assert hidden(site, GPU) == {0}
        refuse(api, "evicted", {GPU: 1}, reason="Evicted")
        refuse(api, "other-resource", {VF: 1})
        refuse(api, "refused", {GPU: 1})
        await until(lambda: hidden(site, GPU) == set())
        assert reasons(served) == {"held-off-after-a-refusal"}
        status = served.node.steering_status()
        assert status.trips == 1
        assert 0 < status.held_off_seconds <= 60
        assert home(site, await placed(site, "p1", {GPU: 1})) == {0}, "all is exposed"
        assert hidden(site, GPU) == set()
        (line,) = [one for one in served.log.troubles if "refused" in one["event"]]
        assert line["pod"] == "default/refused"
        served.clock.skip(60)
        await until(lambda: hidden(site, GPU) == {0})
        assert served.node.steering_status().held_off_seconds is None
        assert served.count("numaplace_steering_breaker_trips_total") == 1


async def test_a_reload_keeps_the_breaker_open(site, api):
    async with steered(site, env=env_of(site, api)) as served:
        await watching(served)
        await placed(site, "p0", {GPU: 1})
        refuse(api, "refused", {GPU: 1})
        await until(lambda: hidden(site, GPU) == set())
        assert await served.node.apply(site.config(**steering(site, strategy="most-allocated")))
        await until(lambda: reasons(served) == {"held-off-after-a-refusal"})


async def test_a_new_start_with_another_configuration_keeps_it_open_too(site):
    clock = Clock()
    box = BreakerBox(1, clock() + 60, "default/refused")
    log, metrics = RecordedLog(), Metrics(version="test", clock=clock)
    config = site.config(**steering(site))
    node = Node(config, metrics=metrics, log=log, clock=clock, box=box)
    async with node.running():
        await site.registered()
        await until(lambda: reasons(Served(node, metrics, log, clock)) == {"held-off-after-a-refusal"})
        assert (await placed(site, "p0", {GPU: 1})).admitted
        assert hidden(site, GPU) == set()


async def test_a_refusal_while_nothing_is_withheld_is_not_ours(site, api):
    async with steered(site, env=env_of(site, api)) as served:
        await watching(served)
        refuse(api, "refused", {GPU: 1})
        created(api, "next", {GPU: 1})
        await until(lambda: served.knows("next"))
        assert served.node.steering_status().trips == 0


async def test_pods_of_the_node_count_as_requests_where_refusals_are_seen(site, api):
    async with steered(site, env=env_of(site, api), steering=NO_DECLARED) as served:
        await watching(served)
        await placed(site, "p0", {GPU: 1})
        await until(lambda: served.node.steering_status().requests_source == "seen")
        await until(lambda: hidden(site, GPU) == {0})
        assert home(site, await placed(site, "p1", {GPU: 1})) == {1}


async def test_a_pod_that_does_not_ask_us_is_looked_for_when_the_api_server_tells_of_it(site, api):
    """It takes the CPUs of the only node that is exposed."""
    async with steered(site, env=env_of(site, api), pollInterval="10m") as served:
        await watching(served)
        await placed(site, "p0", {GPU: 1})
        await served.listed(2)
        assert hidden(site, GPU) == {0}
        assert home(site, await placed(site, "cpus", {}, cpus=6)) == {1}
        created(api, "cpus", {})
        await until(lambda: hidden(site, GPU) == set())
        assert home(site, await placed(site, "p1", {GPU: 1})) == {0}


async def test_an_end_is_looked_for_when_the_api_server_tells_of_it(site, api):
    async with steered(site, env=env_of(site, api), pollInterval="10m") as served:
        await watching(served)
        created(api, "p0", {GPU: 1})
        await placed(site, "p0", {GPU: 1})
        await until(lambda: hidden(site, GPU) == {0})
        await site.kubelet.finish(("default", "p0"))
        created(api, "p0", {GPU: 1}, phase="Succeeded")
        await until(lambda: hidden(site, GPU) == set())


async def test_without_an_api_server_seen_requests_are_not_relied_upon(site):
    async with steered(site, steering=NO_DECLARED) as served:
        await placed(site, "p0", {GPU: 1})
        await quiet(served)
        assert served.node.steering_status().requests_source == "none"


async def test_best_effort_refuses_nothing_so_seen_requests_do(root):
    site = steering_site(root, policy=PolicyName.BEST_EFFORT)
    async with site.kubelet, steered(site, steering=NO_DECLARED) as served:
        await placed(site, "p0", {GPU: 1})
        await until(lambda: hidden(site, GPU) == {0})
        assert served.node.steering_status().requests_source == "seen"


async def test_a_kubelet_that_restarts_is_told_all_until_it_lists_its_pods_again(site):
    async with steered(site) as served:
        made = await placed(site, "p0", {GPU: 1})
        held = made.containers["main"][GPU][0]
        await quiet(served)
        assert hidden(site, GPU) == {0}
        write_checkpoint(site, held, "GPU-of-a-pod-that-is-not-listed-yet")
        await site.kubelet.restart()
        await site.registered()
        lists = served.count("numaplace_podresources_calls_total", method="List")
        await until(lambda: served.count("numaplace_podresources_calls_total", method="List") > lists + 4)
        await until(lambda: reasons(served) == {"kubelet-just-started"})
        assert hidden(site, GPU) == set()
        assert (await placed(site, "p1", {GPU: 1})).admitted
        assert hidden(site, GPU) == set()
        write_checkpoint(site, held)
        await until(lambda: hidden(site, GPU) == {0})


def write_checkpoint(site, *ids):
    entry = {
        "PodUID": "u",
        "ContainerName": "main",
        "ResourceName": GPU,
        "DeviceIDs": {"0": list(ids)},
        "AllocResp": "",
    }
    document = {"Data": {"PodDeviceEntries": [entry], "RegisteredDevices": {}}, "Checksum": 1}
    (site.kubelet.device_plugins_dir / CHECKPOINT).write_text(json.dumps(document))


async def test_the_first_list_after_a_restart_shows_all(site):
    """A running pod's devices are looked for in it."""
    async with steered(site) as served:
        await placed(site, "p0", {GPU: 1})
        await quiet(served)
        assert hidden(site, GPU) == {0}
        first = []
        site.kubelet.on_publish = lambda resource: first.append((resource, hidden(site, resource)))
        await site.kubelet.restart()
        await site.registered()
        assert dict(reversed(first))[GPU] == set()
        await until(lambda: hidden(site, GPU) == {0})
        del served


async def test_a_stream_that_takes_nothing_does_not_hold_up_an_allocate(site):
    async with steered(site, times=Times()) as served:
        service = served.service(GPU)
        with service.board.following():
            started = asyncio.get_running_loop().time()
            assert (await placed(site, "p0", {GPU: 1})).admitted
            assert asyncio.get_running_loop().time() - started < 1
            assert served.count("numaplace_steering_failures_total", reason="undelivered") >= 1
            await until(lambda: hidden(site, GPU) == set())


async def test_a_bug_in_steering_costs_no_pod(site, monkeypatch):
    def fail(*_args, **_kwargs):
        raise NumaplaceError("on purpose")

    async with steered(site) as served:
        monkeypatch.setattr("numaplace.daemon.steering.on_allocate.decision_on_allocate", fail)
        for number in range(3):
            assert (await placed(site, f"p{number}", {GPU: 1})).admitted
        assert served.count("numaplace_steering_failures_total", reason="error") == 3
        assert len([one for one in served.log.troubles if "steering failed" in one["event"]]) == 1


async def test_a_daemon_that_comes_back_in_a_burst_steers_on(site):
    async with steered(site):
        homes = [home(site, await placed(site, f"p{number}", {GPU: 1})) for number in range(2)]
    assert published(site, GPU)
    async with steered(site) as served:
        homes += [home(site, await placed(site, f"q{number}", {GPU: 1})) for number in range(2)]
        assert homes == [{0}, {1}, {0}, {1}]
        assert not served.log.troubles
