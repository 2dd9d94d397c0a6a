"""A stock Topology Manager that follows the strategy, because of what ListAndWatch publishes."""

from __future__ import annotations

import asyncio
import time

import pytest
from daemon_site import GPU, GPUS_PER_NODE, VF, http_anywhere, pod, until
from numaplace.engine.options import PolicyName
from numaplace.kubelet.api import deviceplugin_pb2 as pb
from numaplace.kubelet.emulator import ContainerSpec, Faults
from numaplace.managers.admission import Scope
from numaplace.model.names import ResourceName
from steering_site import (
    GIB,
    decided,
    hidden,
    home,
    placed,
    published,
    quiet,
    reasons,
    steered,
    steering_site,
)

WIDGET = ResourceName("example.com/widget")
BOTH = {"requests": [{GPU: 1, VF: 1, "cpu": 2, "memory": "2Gi"}]}


@pytest.fixture
async def site(root):
    made = steering_site(root)
    async with made.kubelet:
        yield made


async def test_a_burst_is_spread_with_cpus_and_memory(site):
    async with steered(site) as served:
        homes = [home(site, await placed(site, f"p{number}", {GPU: 1})) for number in range(6)]
        assert homes == [{0}, {1}] * 3
        assert not served.log.troubles


async def test_without_steering_the_lowest_node_fills_first(site):
    async with steered(site, steering={"mode": "off"}) as served:
        homes = [home(site, await placed(site, f"p{number}", {GPU: 1})) for number in range(3)]
        assert homes == [{0}] * 3
        assert served.node.steering_status() is None


@pytest.mark.parametrize(("mode", "homes"), [("auto", [{0}, {0}]), ("always", [{0}, {1}])])
async def test_several_sizes_are_steered_only_where_told_always(site, mode, homes):
    """With sizes alone, a grant may be an init container's with fewer than its app: first a look at rest."""
    sizes = [{GPU: number, "cpu": 2, "memory": "2Gi"} for number in (1, 2)]
    async with steered(site, steering={"mode": mode, "requests": sizes}) as served:
        found = [home(site, await placed(site, "p0", {GPU: 1}))]
        await quiet(served)
        await until(lambda: hidden(site, GPU) == ({0} if mode == "always" else set()), "what is withheld")
        assert [*found, home(site, await placed(site, "p1", {GPU: 1}))] == homes


@pytest.mark.parametrize("scope", list(Scope))
@pytest.mark.parametrize("policy", [PolicyName.RESTRICTED, PolicyName.BEST_EFFORT])
async def test_other_policies_and_scopes(root, policy, scope):
    site = steering_site(root, policy=policy, scope=scope)
    async with site.kubelet, steered(site):
        homes = [home(site, await placed(site, f"p{number}", {GPU: 1})) for number in range(4)]
        assert homes == [{0}, {1}] * 2


@pytest.mark.parametrize("order", [(VF, GPU), (GPU, VF)])
async def test_pods_that_ask_for_two_resources_stay_on_one_node(site, order):
    async with steered(site, steering=BOTH):
        container = ContainerSpec("main", {GPU: 1, VF: 1}, cpus=2, memory_bytes=2 * GIB)
        homes = []
        for number in range(6):
            made = await site.kubelet.admit(pod(f"p{number}", containers=(container,)), resource_order=order)
            assert made.admitted, made.message
            homes.append(home(site, made))
        assert homes == [{0}, {1}] * 3


async def test_the_list_has_left_before_allocate_is_answered(site):
    async with steered(site), site.plugin(GPU) as stub:
        stream, seen = stub.ListAndWatch(pb.Empty()), []
        await stream.read()

        async def follow():
            while True:
                message = await stream.read()
                seen.append({one.ID for one in message.devices if not one.topology.nodes})

        following = asyncio.create_task(follow())
        first = next(one for one, node in site.truth.items() if node == 0 and one.startswith("GPU"))
        request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=[first])])
        await stub.Allocate(request, timeout=5)
        assert len(seen) == 1
        assert {site.truth[one] for one in seen[0]} == {0}
        assert first not in seen[0], "who has a device keeps its topology"
        following.cancel()


async def test_a_list_that_comes_between_the_look_and_the_devices_splits_no_pod(site):
    """The Topology Manager has chosen NUMA node 0; then its devices are hidden. So the kubelet offers all."""
    async with steered(site), site.plugin(GPU) as stub:
        await placed(site, "p0", {GPU: 1})
        assert hidden(site, GPU) == {0}
        free = [one for one, nodes in published(site, GPU).items() if one in site.truth]
        free = [one for one in free if one not in site.kubelet.in_use(GPU)]
        ask = pb.ContainerPreferredAllocationRequest(available_deviceIDs=free, allocation_size=2)
        answer = await stub.GetPreferredAllocation(
            pb.PreferredAllocationRequest(container_requests=[ask]), timeout=5
        )
        assert {site.truth[one] for one in answer.container_responses[0].deviceIDs} == {0}


async def test_nothing_is_sent_when_nothing_has_changed(site):
    async with steered(site) as served, site.plugin(GPU) as stub:
        await placed(site, "p", {GPU: 1})
        await quiet(served)
        stream = stub.ListAndWatch(pb.Empty())
        await stream.read()
        before = served.count("numaplace_steering_lists_total")
        lists = served.count("numaplace_podresources_calls_total", method="List")
        await until(lambda: served.count("numaplace_podresources_calls_total", method="List") >= lists + 4)
        assert served.count("numaplace_steering_lists_total") == before
        another = asyncio.ensure_future(stream.read())
        await asyncio.sleep(0)
        assert not another.done()
        another.cancel()


async def test_pods_that_go_and_pods_without_our_devices_are_followed_at_rest(site):
    async with steered(site, weights="cpu=1,memory=0,nvidia.com/gpu=0") as served:
        await placed(site, "p0", {GPU: 1})
        await quiet(served)
        assert hidden(site, GPU) == {0}
        await site.kubelet.remove(("default", "p0"))
        await until(lambda: hidden(site, GPU) == set())
        await placed(site, "cpus", {}, cpus=4)
        await until(lambda: hidden(site, GPU) == {0})
        assert home(site, await placed(site, "p1", {GPU: 1})) == {1}
        assert not served.log.troubles


async def test_an_unhealthy_device_keeps_its_topology(site):
    file = site.root / "widgets.yaml"

    def write(*sick):
        rows = [
            f"- {{id: w{n}, numaNode: {n // 4}, healthy: {str(n not in sick).lower()}}}" for n in range(8)
        ]
        file.write_text("\n".join(rows))

    write()
    resources = [{"name": WIDGET, "declared": {"file": str(file)}}]
    requests = {"requests": [{WIDGET: 1}]}
    async with steered(site, resources=resources, steering=requests) as served:
        assert (await placed(site, "p0", {WIDGET: 1}, cpus=0, gib=0)).admitted
        await until(lambda: without(site) == {"w1", "w2", "w3"} or without(site) == {"w0", "w2", "w3"})
        sick = sorted(without(site))[0]
        write(int(sick[1:]))
        await served.rescan(WIDGET)
        await until(lambda: sick not in site.kubelet.allocatable(WIDGET))
        await until(lambda: len(without(site)) == 2)
        assert sick not in without(site)
        write()
        await served.rescan(WIDGET)
        await until(lambda: len(without(site)) == 3)


def without(site):
    return {one for one, nodes in published(site, WIDGET).items() if not nodes}


async def test_more_than_the_wanted_node_has_is_still_given(site):
    """Devices without topology are free all the same."""
    async with steered(site, steering={"requests": [{GPU: 1}]}):
        for number in range(2 * GPUS_PER_NODE):
            assert (await placed(site, f"p{number}", {GPU: 1}, cpus=0, gib=0)).admitted


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"strategy": "none"}, "no-strategy"),
        ({"kubelet_file": None}, "policy-unknown"),
        ({"kubelet_policy": "none"}, "topology-manager-policy-none"),
    ],
)
async def test_where_it_cannot_steer_it_says_so_once(root, changes, reason):
    policy = PolicyName(changes.pop("kubelet_policy", "single-numa-node"))
    site = steering_site(root, policy=policy)
    if "kubelet_file" in changes:
        del changes["kubelet_file"]
        (root / "kubelet.yaml").unlink()
    async with site.kubelet, steered(site, **changes) as served:
        assert reasons(served) == {reason}
        for number in range(3):
            await placed(site, f"p{number}", {GPU: 1})
        lists = served.count("numaplace_podresources_calls_total", method="List")
        await until(lambda: served.count("numaplace_podresources_calls_total", method="List") >= lists + 3)
        assert len(served.log.events("steering")) == 1
        assert served.count("numaplace_steering_lists_total") == 0


async def test_where_it_cannot_steer_no_list_is_made_for_it(root):
    site = steering_site(root, policy=PolicyName.NONE)

    async def lists_and_questions(served, name):
        await placed(site, name, {GPU: 1})
        # Time enough for a List that a grant would lead to.
        await asyncio.sleep(0.3)
        asked = [one for one in site.kubelet.calls if one.method == "GetPreferredAllocation"]
        return served.count("numaplace_podresources_calls_total", method="List") - len(asked)

    async with site.kubelet, steered(site, pollInterval="10m") as served:
        before = await lists_and_questions(served, "p0")
        assert await lists_and_questions(served, "p1") == before


async def test_settings_change_in_place(site):
    async with steered(site, http=(http := http_anywhere())) as served:
        await placed(site, "p0", {GPU: 1})
        assert hidden(site, GPU) == {0}
        from steering_site import steering

        off = site.config(**steering(site, steering={"mode": "off"}, http=http))
        assert await served.node.apply(off)
        await until(lambda: hidden(site, GPU) == set())
        assert home(site, await placed(site, "p1", {GPU: 1})) == {0}
        assert await served.node.apply(site.config(**steering(site, http=http)))
        await until(lambda: hidden(site, GPU) == {0})
        found = await served.scrape()
        shown = {dict(labels)["numa_node"]: value for (name, labels), value in found.items()
                 if name == "numaplace_steering_withheld_devices"}  # fmt: skip
        assert shown == {"0": 2}


async def test_podresources_that_does_not_answer_costs_no_pod_and_no_time(site):
    async with steered(site, deadline="1s", pollInterval="10m") as served:
        await placed(site, "p0", {GPU: 1})
        assert hidden(site, GPU) == {0}
        site.kubelet.faults = Faults(delays_seconds={"List": 60.0})
        started = time.monotonic()
        assert (await placed(site, "p1", {GPU: 1})).admitted
        assert time.monotonic() - started < 30
        await until(lambda: hidden(site, GPU) == set())
        assert served.count("numaplace_steering_failures_total", reason="no-list") == 1
        site.kubelet.faults = Faults()
        await until(lambda: decided(served))
        assert len([one for one in served.log.troubles if one["event"].startswith("steering failed")]) == 1


async def test_what_steering_changed_is_known_of_a_grant(site):
    async with steered(site) as served:
        await placed(site, "p0", {GPU: 1})
        made = await placed(site, "p1", {GPU: 1})
        await until(lambda: served.count("numaplace_steering_grants_total", effect="changed") == 1)
        ids = made.containers["main"][GPU]
        stock = served.steerer.without_steering(GPU, ids)
        assert stock is not None
        assert stock.mask == 0b01
