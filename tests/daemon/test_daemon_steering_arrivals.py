"""Pods that the API server tells of before the kubelet lists them."""

from __future__ import annotations

import asyncio

import pytest
from daemon_site import GPU, GPUS_PER_NODE, until
from numaplace.engine.options import PolicyName
from steering_site import hidden, placed, quiet, reasons, steered, steering_site
from test_daemon_cluster import created, env_of, known

ONE = {"requests": [{GPU: 1, "cpu": 3, "memory": "1Gi"}]}
REFUSING = [PolicyName.SINGLE_NUMA_NODE, PolicyName.RESTRICTED]


async def watching(served):
    await until(lambda: served.count("numaplace_cluster_watch_connected") == 1)


async def packed(site, served):
    """Node 0 is empty and node 1 is not: packing wants the next one there."""
    for number in range(GPUS_PER_NODE + 1):
        await placed(site, f"p{number}", {GPU: 1}, cpus=1, gib=1)
    for number in range(GPUS_PER_NODE):
        await site.kubelet.remove(("default", f"p{number}"))
    await quiet(served)


@pytest.mark.parametrize("policy", REFUSING)
async def test_a_size_that_was_never_seen_is_not_refused(root, api, policy):
    site = steering_site(root, policy=policy)
    changes = {"env": env_of(site, api), "strategy": "most-allocated", "steering": {"requests": []}}
    async with site.kubelet, steered(site, **changes) as served:
        await watching(served)
        await packed(site, served)
        await until(lambda: reasons(served) == {"other-requests-may-come"}, "the reason why not")
        assert (await placed(site, "big", {GPU: GPUS_PER_NODE}, cpus=1, gib=1)).admitted


async def test_spreading_goes_by_what_was_seen(root, api):
    site = steering_site(root)
    async with site.kubelet, steered(site, env=env_of(site, api), steering={"requests": []}) as served:
        await watching(served)
        await placed(site, "p", {GPU: 1}, cpus=1, gib=1)
        await quiet(served)
        await until(lambda: hidden(site, GPU) == {0}, "the fuller node's devices are withheld")
        assert site.nodes_of(await placed(site, "next", {GPU: 1}, cpus=1, gib=1)) == {1}


@pytest.mark.parametrize(
    ("name", "limits"),
    [("cpus", {"cpu": 5, "memory": "1Gi"}), ("memory", {"cpu": "1500m", "memory": "9Gi"})],
)
async def test_a_pod_without_devices_makes_room_unknown_at_once(root, api, name, limits):
    site = steering_site(root)
    async with site.kubelet, steered(site, env=env_of(site, api), steering=ONE) as served:
        await watching(served)
        await placed(site, "p", {GPU: 1}, cpus=3, gib=1)
        await quiet(served)
        await until(lambda: hidden(site, GPU) == {0})
        created(api, name, limits)
        await known(served, name)
        await until(lambda: hidden(site, GPU) == set())


async def test_a_pod_without_devices_takes_no_room_from_the_next_one(root, api):
    site = steering_site(root)
    async with site.kubelet, steered(site, env=env_of(site, api), steering=ONE) as served:
        await watching(served)
        await placed(site, "p", {GPU: 1}, cpus=3, gib=1)
        await quiet(served)
        await until(lambda: hidden(site, GPU) == {0})
        created(api, "cpus", {"cpu": 5, "memory": "1Gi"})
        await until(lambda: hidden(site, GPU) == set())
        assert (await placed(site, "cpus", {}, cpus=5, gib=1)).admitted
        assert (await placed(site, "next", {GPU: 1}, cpus=3, gib=1)).admitted


async def test_what_takes_nothing_that_devices_need_changes_nothing(root, api):
    site = steering_site(root)
    async with site.kubelet, steered(site, env=env_of(site, api), steering=ONE) as served:
        await watching(served)
        await placed(site, "p", {GPU: 1}, cpus=3, gib=1)
        await quiet(served)
        await until(lambda: hidden(site, GPU) == {0})
        created(api, "shares", {"memory": "1Gi"})
        created(api, "ended", {"cpu": 5, "memory": "1Gi"}, phase="Succeeded")
        created(api, "like-the-declared", {GPU: 1, "cpu": 3, "memory": "1Gi"})
        await known(served, "like-the-declared")
        await asyncio.sleep(0)
        assert hidden(site, GPU) == {0}


async def test_a_pod_that_is_not_declared_is_tried(root, api):
    """Packing has withheld the emptiest node, the only one that has four free."""
    site = steering_site(root)
    changes = {"strategy": "most-allocated", "steering": {"requests": [{GPU: 1, "cpu": 1, "memory": "1Gi"}]}}
    async with site.kubelet, steered(site, env=env_of(site, api), **changes) as served:
        await watching(served)
        await packed(site, served)
        await until(lambda: hidden(site, GPU) == {0})
        created(api, "two", {GPU: 2, "cpu": 1, "memory": "1Gi"})
        await known(served, "two")
        assert hidden(site, GPU) == {0}, "it fits where one is wanted"
        created(api, "four", {GPU: GPUS_PER_NODE, "cpu": 1, "memory": "1Gi"})
        await known(served, "four")
        await until(lambda: hidden(site, GPU) == set())
        assert (await placed(site, "four", {GPU: GPUS_PER_NODE}, cpus=1, gib=1)).admitted
