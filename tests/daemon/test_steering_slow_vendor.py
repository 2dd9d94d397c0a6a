"""A container that a vendor's plugin holds up, while other pods come and go."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
from daemon_site import GPU, VF, pod, until
from numaplace.engine.options import PolicyName
from numaplace.kubelet.emulator.admission import Admitter
from steering_site import (
    hidden,
    home,
    placed,
    published,
    quiet,
    quiet_lists,
    reasons,
    steered,
    steering_site,
    withhold,
)

REQUESTS = {"requests": [{VF: 1, "cpu": 2, "memory": "2Gi"}]}


@pytest.fixture
def held_up(monkeypatch):
    """The next container waits after the Topology Manager's look, until the event that is returned is set."""
    looked, go = asyncio.Event(), asyncio.Event()
    drive = Admitter._drive

    async def wait(self, steps, *, container):
        looked.set()
        await go.wait()
        return await drive(self, steps, container=container)

    def hold():
        monkeypatch.setattr(Admitter, "_drive", wait)
        return looked, go

    return hold


@pytest.mark.parametrize("policy", [PolicyName.SINGLE_NUMA_NODE, PolicyName.RESTRICTED])
async def test_a_pod_ends_while_another_ones_vendor_is_slow(root, held_up, policy):
    """Its node was chosen before: that must not be withheld until it has our device."""
    site = steering_site(root, policy=policy)
    async with site.kubelet, steered(site, steering=REQUESTS) as served:
        for number in range(2):
            await placed(site, f"p{number}", {VF: 1})
        await quiet(served)
        looked, go = held_up()
        coming = asyncio.ensure_future(placed(site, "x", {VF: 1}))
        await looked.wait()
        site.kubelet._node.end(("default", "p1"))
        await quiet_for_a_while(served)
        assert hidden(site, VF) == set()
        go.set()
        assert len(home(site, await coming)) == 1
        assert not served.count("numaplace_steering_failures_total")
        await until(lambda: hidden(site, VF) == {0})


@asynccontextmanager
async def freed_where_withheld(root, held_up, policy):
    """A pod has been looked at by the Topology Manager just after a device of a withheld node became free.

    Yields site, daemon, the pod's placement to come, and the event that lets it go on.
    """
    site = steering_site(root, policy=policy)
    async with site.kubelet, steered(site, steering=REQUESTS) as served:
        for number in range(3):
            await placed(site, f"p{number}", {VF: 1})
        await site.kubelet.remove(("default", "p1"))
        await quiet(served)
        await until(lambda: hidden(site, VF) == {0})
        looked, go = held_up()
        site.kubelet._node.end(("default", "p2"))
        coming = asyncio.ensure_future(placed(site, "x", {VF: 1}))
        await looked.wait()
        yield site, served, coming, go


@pytest.mark.parametrize(
    "policy", [PolicyName.SINGLE_NUMA_NODE, PolicyName.RESTRICTED, PolicyName.BEST_EFFORT]
)
async def test_a_device_becomes_free_where_topology_is_withheld(root, held_up, policy):
    """The kubelet has chosen it before Lists showed that: it stays as it was until it is taken."""
    async with freed_where_withheld(root, held_up, policy) as (site, served, coming, go):
        await quiet_for_a_while(served)
        go.set()
        assert len(home(site, await coming)) == 1
        assert not served.count("numaplace_steering_failures_total")


@pytest.mark.parametrize("policy", [PolicyName.SINGLE_NUMA_NODE, PolicyName.BEST_EFFORT])
async def test_a_freed_device_is_hidden_just_after_it_was_chosen(root, held_up, policy):
    """No slow plugin is needed for that: the list and the pod are on their way at the same time."""
    async with freed_where_withheld(root, held_up, policy) as (site, served, coming, go):
        await served.node._poller.live(timeout_seconds=5)
        await withhold(served, {VF: 0b1})
        await until(lambda: sum(not one for one in published(site, VF).values()) == 7)
        go.set()
        assert home(site, await coming) == {0}


async def test_what_was_hidden_just_after_the_choice_is_shown_again_before_the_question(
    root, held_up, monkeypatch
):
    """The kubelet's offer is as old as the choice: it has all devices, of which one node's are wanted."""
    site = steering_site(root)
    async with site.kubelet, steered(site, steering={}) as served:
        assert home(site, await placed(site, "p0", {VF: 1})) == {0}
        await quiet(served)
        looked, go = held_up()
        prefer = Admitter._prefer

        async def shown_again(self, step, *, container):
            served.node._steerer.reset()
            await until(lambda: not hidden(site, VF))
            return await prefer(self, step, container=container)

        monkeypatch.setattr(Admitter, "_prefer", shown_again)
        coming = asyncio.ensure_future(placed(site, "x", {VF: 1}))
        await looked.wait()
        await withhold(served, {VF: 0b1})
        await until(lambda: hidden(site, VF) == {0})
        go.set()
        assert home(site, await coming) == {0}


async def quiet_for_a_while(served):
    """Wait until Lists have shown the pods unchanged for a while."""
    await quiet_lists(served)
    lists = served.count("numaplace_podresources_calls_total", method="List")
    await until(lambda: served.count("numaplace_podresources_calls_total", method="List") > lists + 2)


async def test_a_pod_without_cpus_is_waited_for_only_for_a_while(root, monkeypatch):
    """Whether it still asks for more cannot be seen."""
    monkeypatch.setattr("numaplace.state.stability.GRANT_GRACE_SECONDS", 4.0)
    site = steering_site(root, managers=False)
    requests = {"requests": [{VF: 1}, {GPU: 1}]}
    async with site.kubelet, steered(site, steering=requests, pollInterval="10m") as served:
        for number in range(4):
            await site.kubelet.admit(pod(f"p{number}", {VF: 1}))
        await quiet_lists(served)
        assert hidden(site, VF) == set()
        await site.kubelet.remove(("default", "p1"))
        await served.node._poller.live(timeout_seconds=5)
        await until(lambda: reasons(served) == {"admission-under-way"})
        assert hidden(site, VF) == set()
        await until(lambda: hidden(site, VF) == {0})


async def test_a_set_that_came_under_a_container_is_noticed(root, held_up, monkeypatch):
    """Its CPUs come from the node that it was placed on; so do its devices, hidden or not."""
    monkeypatch.setattr("numaplace.daemon.resources.service.LOOK_SECONDS", 0.0)
    site = steering_site(root)
    async with site.kubelet, steered(site, steering=REQUESTS) as served:
        await placed(site, "p0", {VF: 1})
        await placed(site, "p1", {VF: 1})
        await quiet(served)
        looked, go = held_up()
        coming = asyncio.ensure_future(placed(site, "x", {VF: 1}))
        await looked.wait()
        await withhold(served, {VF: 0b1})
        await until(lambda: hidden(site, VF) == {0})
        go.set()
        assert home(site, await coming) == {0}
        assert served.count("numaplace_steering_failures_total", reason="alignment") == 1
