"""Devices where the memory and hugepages of their container are, as the real memory manager takes them.

Under policy ``none`` the request is known from the API server, else it is declared and the set that steering
withholds leaves the NUMA nodes that have the memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from harness.apiserver import fake_cluster
from harness.backend import Tools
from harness.daemon import Daemon
from harness.equipped import EquippedNode, equipped_node
from harness.hardware import declare
from harness.kubelet import NODE_NAME, KubeletOptions
from harness.landing import Landing, land
from harness.logs import LogKeeper
from harness.pods import Pod, unique
from harness.report import Report
from harness.steering import count
from harness.waiters import until
from numaplace.model.quantity import parse_quantity

VF, GPU = "intel.com/vf", "nvidia.com/gpu"
STORY = yaml.safe_load((Path(__file__).parents[1] / "tests/cases/daemon/known_memory.yaml").read_text())
SHARED_CPU = "100m"


def guaranteed(prefix: str, limits: Mapping[str, Any]) -> Pod:
    """Return a pod whose memory is taken from NUMA nodes, and whose CPU is not."""
    return Pod.of(unique(prefix), {**limits, "cpu": SHARED_CPU})


def memory_node(
    tools: Tools,
    scratch: Path,
    policy: str,
    *,
    numa_nodes: int,
    logs: LogKeeper,
    hugepages_gib_each: int = 0,
) -> AbstractContextManager[EquippedNode]:
    """Return a node whose memory manager is static, with 8 VFs and 4 GPUs on each NUMA node."""
    devices = {
        resource: {f"{resource[-2:]}-{node}-{n}": node for node in range(numa_nodes) for n in range(number)}
        for resource, number in {VF: 8, GPU: 4}.items()
    }
    return equipped_node(
        tools,
        scratch,
        numa_nodes=numa_nodes,
        options=KubeletOptions(topology_manager_policy=policy, static_memory_manager=True),
        logs=logs,
        hugepages_gib_each=hugepages_gib_each,
        equip=partial(declare, devices=devices),
    )


@pytest.fixture(scope="module")
def unaligned(tools: Tools, scratch: Path, logs: LogKeeper) -> Iterator[EquippedNode]:
    with memory_node(tools, scratch, "none", numa_nodes=2, logs=logs, hugepages_gib_each=8) as site:
        yield site


def first_decision(daemon: Daemon, pod: Pod) -> dict[str, Any]:
    lines = partial(daemon.decisions, f"{pod.name}-{NODE_NAME}")
    until(lines, f"the decision for {pod.name} in the log", detail=daemon.tail)
    return lines()[0]


def test_devices_are_where_the_memory_can_be(unaligned: EquippedNode, tmp_path: Path, report: Report) -> None:
    beside: list[Landing] = []
    with fake_cluster(tmp_path) as cluster, unaligned.daemon("most-allocated", cluster=cluster) as daemon:
        until(lambda: count(daemon, "cluster_watch_connected") == 1, "the watch", detail=daemon.tail)
        for step in STORY:
            pod = guaranteed(step["id"], step["limits"])
            cluster.announce(pod)
            (landed,) = land(unaligned, [pod])
            assert landed.admitted, landed.refusal
            assert landed.memory == {step["memory"]}, step["id"]
            assert landed.devices == ({step["devices"]} if "devices" in step else set()), step["id"]
            if landed.devices:
                check_reasons(first_decision(daemon, pod), step)
            beside.append(landed)
    with unaligned.daemon("most-allocated"):
        apart = [land(unaligned, [guaranteed(step["id"], step["limits"])])[0] for step in STORY]
    assert [one.memory for one in apart] == [one.memory for one in beside], "the kubelet's choice is its own"
    for step, landed in zip(STORY, apart, strict=True):
        if "lacking" in step:
            assert landed.devices == {0}, "a request that is not known cannot be followed"
    rows = {"known": beside, "not known": apart}
    report.rows(
        "Devices and memory under policy none, the request ...",
        {name: [one.nodes for one in found] for name, found in rows.items()},
    )


@pytest.fixture(scope="module")
def three_nodes(tools: Tools, scratch: Path, logs: LogKeeper) -> Iterator[EquippedNode]:
    with memory_node(tools, scratch, "none", numa_nodes=3, logs=logs) as site:
        yield site


def test_memory_that_is_taken_from_two_nodes_together(three_nodes: EquippedNode, tmp_path: Path) -> None:
    """NUMA 1 has more left than is asked for, but gives memory only together with NUMA 0, which has none."""
    pods = [guaranteed("large", {"memory": "40Gi"}), guaranteed("vf", {VF: 1, "memory": "4Gi"})]
    with fake_cluster(tmp_path) as cluster, three_nodes.daemon("most-allocated", cluster=cluster) as daemon:
        until(lambda: count(daemon, "cluster_watch_connected") == 1, "the watch", detail=daemon.tail)
        for pod in pods:
            cluster.announce(pod)
        large, small = (land(three_nodes, [pod])[0] for pod in pods)
        decision = first_decision(daemon, pods[1])
    assert large.memory == {0, 1}
    assert small.memory == small.devices == {2}
    by_score = sorted(decision["candidates"], key=lambda one: one["score"], reverse=True)
    assert [one["numa"] for one in by_score] == [[0], [1], [2]], "the scores alone would have it elsewhere"


def check_reasons(decision: Mapping[str, Any], step: Mapping[str, Any]) -> None:
    lacking = {name: int(parse_quantity(one)) for name, one in step.get("lacking", {}).items()}
    assert decision["rest"] == lacking, step["id"]
    if lacking:
        highest = max(decision["candidates"], key=lambda one: one["score"])
        assert highest["numa"] == [0], "the scores alone would have it where the memory is not"


@pytest.fixture(scope="module", params=["best-effort", "single-numa-node"])
def aligned(
    request: pytest.FixtureRequest, tools: Tools, scratch: Path, logs: LogKeeper
) -> Iterator[EquippedNode]:
    with memory_node(tools, scratch, request.param, numa_nodes=4, logs=logs) as site:
        yield site


def test_steering_spreads_over_the_nodes_with_the_memory(aligned: EquippedNode, report: Report) -> None:
    """NUMA 0 has all of its VFs and, after the first pod, none of the memory: it is left out."""
    limits, filler = {VF: 1, "memory": "4Gi"}, {"memory": "29Gi"}
    turns = {1: frozenset[int](), 2: frozenset({1}), 3: frozenset({1, 2})}
    steered = []
    with aligned.daemon(
        "least-allocated", weights="cpu=0,memory=0", steering={"requests": [limits]}
    ) as daemon:
        (filled,) = land(aligned, [guaranteed("fills-0", filler)])
        assert filled.memory == {0}
        for _ in range(2):
            for wanted, passed_over in turns.items():
                aligned.wait_withheld(daemon, {VF: passed_over} if passed_over else {})
                (landed,) = land(aligned, [guaranteed("vf", limits)])
                assert landed.devices == landed.memory == {wanted}, steered
                steered.append(landed)
    with aligned.alone():
        stock = land(aligned, [guaranteed("alone", one) for one in (filler, *[limits] * len(steered))])[1:]
    assert all(one.devices == one.memory == {1} for one in stock)
    rows = {"steered": steered, "the kubelet alone": stock}
    report.rows(
        f"NUMA 0 without memory, {aligned.node.policy}",
        {name: [one.nodes for one in found] for name, found in rows.items()},
    )
