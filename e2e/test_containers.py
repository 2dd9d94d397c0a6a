"""TM policy none: what containers get, of cards that look like real ones, and from which NUMA node."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.backend import Tools
from harness.daemon import Daemon
from harness.equipped import EquippedNode, equipped_node
from harness.flows import run_burst, run_one_by_one
from harness.hardware import AMD, NVIDIA, VF
from harness.kubelet import KubeletOptions
from harness.kubelet_log import resource_order
from harness.logs import LogKeeper
from harness.pods import Container, Pod, unique
from harness.report import Report

VF_ENV = "PCIDEVICE_INTEL_COM_SRIOV_VF"
STRATEGIES = ("most-allocated", "least-allocated")
# In proportion to what a NUMA node has: both run out there at the same time.
BOTH = {VF: 2, NVIDIA: 1}
# A NUMA node's GPUs run out while it still has VFs: packing has to go on to the next node for both.
GPU_FIRST = {VF: 1, NVIDIA: 1}
MANY = 100


@pytest.fixture(scope="module")
def site(tools: Tools, scratch: Path, logs: LogKeeper) -> Iterator[EquippedNode]:
    with equipped_node(tools, scratch, numa_nodes=4, options=KubeletOptions(), logs=logs) as site:
        yield site


@pytest.fixture(params=STRATEGIES)
def daemon(request: pytest.FixtureRequest, site: EquippedNode) -> Iterator[Daemon]:
    with site.daemon(request.param) as daemon:
        yield daemon


@pytest.fixture
def packing(site: EquippedNode) -> Iterator[Daemon]:
    with site.daemon("most-allocated") as daemon:
        yield daemon


@pytest.mark.parametrize("amounts", [BOTH, GPU_FIRST], ids=["run-out-together", "gpus-run-out-first"])
def test_vfs_and_gpu_come_from_one_numa_node_whichever_is_asked_first(
    site: EquippedNode, daemon: Daemon, report: Report, amounts: dict[str, int]
) -> None:
    # The kubelet walks a Go map, in an order that is random but far from even: go on until both orders
    # were seen. The oldest pod makes room for the next.
    first: Counter[str] = Counter()
    alive: list[Pod] = []
    sequence: list[tuple[int, ...]] = []
    while len(sequence) < 8 or (len(first) < 2 and len(sequence) < MANY):
        if len(alive) == 12:
            site.node.delete(alive.pop(0).name)
        pod = Pod.of(unique("both"), amounts)
        alive.append(pod)
        run_one_by_one(site.node, [pod])
        first[resource_order(site.node.kubelet.log, pod.name)[0]] += 1
        sequence.append(tuple(sorted(site.placement().nodes(pod.name))))
    asked = ", ".join(f"{resource} {count}x" for resource, count in first.items())
    title = f"VF x {amounts[VF]} and GPU x {amounts[NVIDIA]} in one container; first asked: {asked}"
    report.rows(title, {daemon.strategy: sequence})
    assert set(first) == {VF, NVIDIA}, "both orders were seen"
    assert all(len(nodes) == 1 for nodes in sequence)


def test_pods_in_a_burst(site: EquippedNode, daemon: Daemon, report: Report) -> None:
    pods = [Pod.of(unique("burst"), BOTH) for _ in range(12)]
    run_burst(site.node, pods)
    placed = site.placement()
    report.rows("burst of 12 pods, VF x 2 and GPU x 1", {daemon.strategy: placed.node_sequence(pods, NVIDIA)})
    assert all(len(placed.nodes(pod.name)) == 1 for pod in pods)
    expected = {"most-allocated": [4, 4, 4, 0], "least-allocated": [3, 3, 3, 3]}
    assert list(placed.per_node(NVIDIA).values()) == expected[daemon.strategy]
    held = [vf for pod in pods for vf in placed.ids(pod.name, VF)]
    assert len(set(held)) == len(held) == 24, "no VF is held twice"


def test_three_resources_of_one_container(site: EquippedNode, daemon: Daemon) -> None:
    pods = [Pod.of(unique("three"), {VF: 4, NVIDIA: 2, AMD: 1}) for _ in range(4)]
    run_one_by_one(site.node, pods)
    placed = site.placement()
    assert all(len(placed.nodes(pod.name)) == 1 for pod in pods)


def test_init_containers_and_sidecars(site: EquippedNode, packing: Daemon) -> None:
    pod = Pod(
        unique("layers"),
        containers=(Container("main", {VF: 2}), Container("second", {NVIDIA: 1})),
        init_containers=(
            Container("prepare", {VF: 2}, ends=True),
            Container("helper", {NVIDIA: 1}, sidecar=True),
        ),
    )
    run_one_by_one(site.node, [pod])
    held = site.node.held()[pod.name]
    assert set(held) == {"helper", "main", "second"}
    prepared = site.node.given(pod.name, "prepare").env[VF_ENV].split(",")
    assert held["main"].devices[VF] == set(prepared), "the init container's VFs go on to the main container"
    assert len(site.placement().nodes(pod.name)) == 1


def test_environment_and_device_nodes_reach_the_runtime(site: EquippedNode, packing: Daemon) -> None:
    # All VFs of one NUMA node: some are bound to a network driver, some to vfio-pci.
    pod = Pod.of(unique("given"), {VF: 8, NVIDIA: 2, AMD: 1})
    run_one_by_one(site.node, [pod])
    given = site.node.given(pod.name, "main")
    placed = site.placement()
    assert set(given.env[VF_ENV].split(",")) == placed.ids(pod.name, VF)
    info = json.loads(given.env[f"{VF_ENV}_INFO"])
    assert set(info) == placed.ids(pod.name, VF)
    vfio = {entry["vfio"]["dev-mount"] for entry in info.values() if "vfio" in entry}
    assert len(vfio) == 4
    assert vfio | {"/dev/vfio/vfio"} <= set(given.devices)
    assert set(given.env["NVIDIA_VISIBLE_DEVICES"].split(",")) == placed.ids(pod.name, NVIDIA)
    assert "/dev/nvidiactl" in given.devices
    assert sum(bool(re.fullmatch(r"/dev/nvidia\d+", path)) for path in given.devices) == 2
    assert "/dev/kfd" in given.devices
    assert sum(path.startswith("/dev/dri/renderD") for path in given.devices) == 1


def test_vfs_of_a_container_come_from_one_port(site: EquippedNode, daemon: Daemon) -> None:
    # The PCI addresses of the two ports' VFs interleave: neighbours belong to different ports.
    pods = [Pod.of(unique("port"), {VF: 2}) for _ in range(4)]
    run_one_by_one(site.node, pods)
    placed = site.placement()
    ports = [{site.hardware.port_of[vf] for vf in placed.ids(pod.name, VF)} for pod in pods]
    assert all(len(one) == 1 for one in ports)


def test_weights_make_one_resource_decide(site: EquippedNode, report: Report) -> None:
    # GPUs on node 0 are taken first. Spreading by all resources then avoids node 0 for VFs,
    # spreading by VFs alone does not care.
    results = {}
    for weights in ("", f"{NVIDIA}=0,{AMD}=0"):
        with site.daemon("least-allocated", weights=weights):
            gpus, vf = Pod.of(unique("gpus"), {NVIDIA: 4}), Pod.of(unique("vf"), {VF: 1})
            run_one_by_one(site.node, [gpus, vf])
            results[weights or "equal"] = site.placement().node_sequence([vf], VF)
    report.rows("a VF after 4 GPUs on node 0, least-allocated", results)
    assert list(results.values()) == [[(1,)], [(0,)]]
