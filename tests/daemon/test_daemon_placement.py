"""Where pods land, with the daemon's own sockets between the kubelet and the decision."""

from __future__ import annotations

import asyncio
import random

import pytest
from daemon_site import GPU, SIZES, VF, Site, pod, preferred
from numaplace.kubelet.emulator import ContainerSpec
from numaplace.model.names import ResourceName


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize(
    ("strategy", "landed"),
    [
        ("none", [{0}, {0}, {0}]),
        ("most-allocated", [{1}, {1}, {1}]),
        ("least-allocated", [{0}, {0}, {1}]),
    ],
)
async def test_strategies(site: Site, strategy: str, size: int, landed: list[set[int]]) -> None:
    async with site.serving(strategy=strategy, weights="cpu=0,memory=0"):
        await site.admit("there", {VF: size}, affinity=0b10)
        assert [await site.nodes(f"p{n}", {VF: size}) for n in range(3)] == landed


async def test_weights_decide_which_resource_counts(site: Site) -> None:
    async with site.serving(strategy="most-allocated", weights="intel.com/vf=0"):
        await site.admit("vfs", {VF: 6}, affinity=0b01)
        await site.admit("gpu", {GPU: 1}, affinity=0b10)
        assert await site.nodes("by-gpu", {VF: 1}) == {1}
    async with site.serving(strategy="most-allocated", weights="nvidia.com/gpu=0"):
        assert await site.nodes("by-vf", {VF: 1}) == {0}


async def test_a_resource_may_have_its_own_strategy(site: Site) -> None:
    resources = site.document()["resources"]
    resources[0]["strategy"] = "most-allocated"
    async with site.serving(resources=resources):
        await site.admit("there", {VF: 1, GPU: 1}, affinity=0b10)
        assert await site.nodes("vf", {VF: 1}) == {1}
        assert await site.nodes("gpu", {GPU: 1}) == {0}


@pytest.mark.parametrize(("closest", "landed"), [(False, {"w0", "w1"}), (True, {"w0", "w2"})])
async def test_the_closest_numa_nodes_if_wanted(site: Site, closest: bool, landed: set[str]) -> None:
    near = {0: 2, 2: 0, 1: 3, 3: 1}
    for node, other in near.items():
        row = [10 if one == node else 12 if one == other else 32 for one in range(4)]
        site.host.numa_node(node, distances=row)
    widget = ResourceName("example.com/widget")
    file = site.root / "widgets.yaml"
    file.write_text("".join(f"- {{id: w{node}, numaNode: {node}}}\n" for node in range(4)))
    resources = [{"name": widget, "declared": {"file": str(file)}}]
    async with site.serving(resources=resources, strategy="none", preferClosestNUMANodes=closest):
        admission = await site.admit("two", {widget: 2})
    assert set(admission.containers["main"][widget]) == landed


@pytest.mark.parametrize(("allowed", "warned"), [(8, True), (9, False)])
async def test_more_numa_nodes_than_allowed_are_warned_of(site: Site, allowed: int, warned: bool) -> None:
    for node in range(9):
        site.host.numa_node(node)
    async with site.serving(maxAllowableNUMANodes=allowed) as served:
        lines = [line for line in served.log.troubles if "maxAllowableNUMANodes" in line["event"]]
    assert bool(lines) is warned
    assert all(line["numa_nodes"] == 9 for line in lines)


@pytest.mark.parametrize("order", [(VF, GPU), (GPU, VF)])
@pytest.mark.parametrize("strategy", ["none", "most-allocated", "least-allocated"])
async def test_vf_and_gpu_of_a_container_share_a_node(site: Site, strategy: str, order: tuple) -> None:
    async with site.serving(strategy=strategy):
        await site.admit("there", {VF: 2}, affinity=0b01)
        for n in range(4):
            nodes = await site.nodes(f"both{n}", {VF: 1, GPU: 1}, resource_order=order)
            assert len(nodes) == 1


async def test_a_burst_is_spread(site: Site) -> None:
    async with site.serving(weights="cpu=0,memory=0") as served:
        pods = [site.admit(f"p{n}", {GPU: 1, VF: 1}) for n in range(SIZES[GPU])]
        admissions = await asyncio.gather(*pods)
        assert site.spread(admissions, GPU) == site.spread(admissions, VF) == {0: 4, 1: 4}
        assert all(len(site.nodes_of(one)) == 1 for one in admissions)
        assert not served.log.troubles


async def test_init_containers_and_sidecars(site: Site) -> None:
    async with site.serving():
        layers = pod(
            "layers",
            init_containers=(
                ContainerSpec("prepare", {VF: 2}),
                ContainerSpec("proxy", {VF: 1}, restart_policy="Always"),
            ),
            containers=(ContainerSpec("main", {VF: 2, GPU: 1}), ContainerSpec("second", {VF: 1})),
        )
        admission = await site.kubelet.admit(layers)
        assert admission.admitted
        held = {name: set(devices[VF]) for name, devices in admission.containers.items()}
        assert len(held["proxy"] | held["main"] | held["second"]) == 4
        assert held["prepare"] & (held["proxy"] | held["main"]), "init devices are used again"
        await site.kubelet.remove(layers)
        everything = await asyncio.gather(*(site.admit(f"p{n}", {VF: 1}) for n in range(SIZES[VF])))
        assert site.spread(everything, VF) == {0: 8, 1: 8}


@pytest.mark.parametrize("mask", [0b01, 0b10])
async def test_the_answer_stays_inside_the_topology_managers_mask(site: Site, mask: int) -> None:
    """Policies best-effort, restricted and single-numa-node: only the mask's devices are offered."""
    async with site.serving(strategy="most-allocated") as served:
        await site.admit("there", {VF: 3}, affinity=0b11 ^ mask)
        for n in range(3):
            admission = await site.admit(f"p{n}", {VF: 2}, affinity=mask)
            assert site.nodes_of(admission) == {mask >> 1}
            assert admission.calls[0].method == "GetPreferredAllocation"
            assert set(admission.calls[0].answer) == set(admission.containers["main"][VF])
        assert served.count("numaplace_decisions_total", outcome="placed") == 4


async def test_more_than_the_mask_holds_keeps_all_of_it(site: Site) -> None:
    """Policy best-effort: the aligned devices are taken, then the rest is asked for with them included."""
    async with site.serving():
        admission = await site.admit("wide", {VF: 10}, affinity=0b10)
        [call] = [call for call in admission.calls if call.method == "GetPreferredAllocation"]
        assert len(call.must_include) == 8
        assert set(call.must_include) < set(call.answer) == set(admission.containers["main"][VF])


async def test_must_include_decides_the_node(site: Site) -> None:
    async with site.serving(strategy="none"), site.plugin(VF) as stub:
        vfs = [one for one, node in site.truth.items() if ":" in one and not one.startswith("GPU")]
        must = [one for one in vfs if site.truth[one] == 1][3:5]
        answer = await preferred(stub, vfs, must, size=4)
        assert set(must) < set(answer)
        assert {site.truth[one] for one in answer} == {1}


@pytest.mark.parametrize("strategy", ["most-allocated", "least-allocated"])
async def test_churn_admits_every_pod_that_fits(site: Site, strategy: str) -> None:
    """200 pods come and go; whenever the devices are there, the pod starts, and no two share a device."""
    chance = random.Random(7)
    async with site.serving(strategy=strategy) as served:
        running: dict[str, dict] = {}
        for number in range(200):
            wanted = {VF: chance.choice([1, 1, 2, 4]), GPU: chance.choice([0, 0, 1, 2])}
            wanted = {name: count for name, count in wanted.items() if count}
            while running and any(
                SIZES[name] - sum(len(held.get(name, ())) for held in running.values()) < count
                for name, count in wanted.items()
            ):
                gone = chance.choice(sorted(running))
                del running[gone]
                await site.kubelet.remove(("default", gone))
            admission = await site.admit(f"p{number}", wanted)
            held = admission.containers["main"]
            assert {name: len(ids) for name, ids in held.items()} == wanted
            taken = {one for others in running.values() for ids in others.values() for one in ids}
            assert taken.isdisjoint(one for ids in held.values() for one in ids)
            running[f"p{number}"] = held
        assert not served.log.troubles
        assert served.count("numaplace_fallbacks_total") == 0
