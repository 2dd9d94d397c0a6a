"""Kubelet and daemon come and go; pods keep what they have, and the strategy goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness.backend import Tools
from harness.daemon import Daemon
from harness.equipped import EquippedNode, equipped_node
from harness.flows import run_burst, run_one_by_one
from harness.hardware import NVIDIA, VF
from harness.kubelet import KubeletOptions
from harness.logs import LogKeeper
from harness.pods import Pod


@pytest.fixture(scope="module")
def site(tools: Tools, scratch: Path, logs: LogKeeper) -> Iterator[EquippedNode]:
    with equipped_node(tools, scratch, numa_nodes=4, options=KubeletOptions(), logs=logs) as site:
        yield site


@pytest.fixture
def daemon(site: EquippedNode) -> Iterator[Daemon]:
    with site.daemon("least-allocated") as daemon:
        yield daemon


def four(prefix: str) -> list[Pod]:
    """One pod for each NUMA node."""
    return [Pod.of(f"{prefix}-{n}", {VF: 1, NVIDIA: 1}) for n in range(4)]


def assert_one_pod_on_each_node(site: EquippedNode, pods: list[Pod]) -> None:
    placed = site.placement()
    assert sorted(tuple(placed.nodes(pod.name)) for pod in pods) == [(0,), (1,), (2,), (3,)]


def stop_kubelet(site: EquippedNode) -> None:
    site.node.kubelet.stop()


def kill_kubelet(site: EquippedNode) -> None:
    site.node.kubelet.kill()


@pytest.mark.parametrize("end", [stop_kubelet, kill_kubelet])
def test_kubelet_restarts(site: EquippedNode, daemon: Daemon, end: Callable[[EquippedNode], None]) -> None:
    before = four("before")
    run_one_by_one(site.node, before)
    held = site.node.held()
    end(site)
    site.node.kubelet.start()
    site.wait_registered(daemon)
    assert site.node.held() == held, "pods keep their devices"
    after = four("after")
    run_one_by_one(site.node, after)
    assert {pod.name: site.node.held()[pod.name] for pod in before} == held
    assert [site.node.times_created(pod.name, "main") for pod in before] == [1, 1, 1, 1]
    assert_one_pod_on_each_node(site, after)


def test_daemon_is_killed_and_restarted(site: EquippedNode, daemon: Daemon) -> None:
    before = four("before")
    run_one_by_one(site.node, before)
    held = site.node.held()
    daemon.kill()
    daemon.start()
    daemon.wait_ready()
    site.wait_registered(daemon)
    after = four("after")
    run_one_by_one(site.node, after)
    assert {pod.name: site.node.held()[pod.name] for pod in before} == held
    assert_one_pod_on_each_node(site, after)


def test_daemon_is_killed_in_the_middle_of_a_burst(site: EquippedNode, daemon: Daemon) -> None:
    pods = [Pod.of(f"mid-{n}", {NVIDIA: 1}) for n in range(12)]
    for pod in pods:
        site.node.create(pod)
    daemon.kill()
    daemon.start()
    site.wait_registered(daemon)
    settled = [pod for pod in pods if site.node.running(pod.name)]
    # A pod that the kubelet admitted in the gap is refused by the kubelet itself: the resource has no
    # plugin then. Its owner makes a new one; so does this test.
    for pod in pods:
        if site.node.rejected(pod.name):
            site.node.delete(pod.name)
    replaced = [Pod.of(f"again-{pod.name}", {NVIDIA: 1}) for pod in pods if pod not in settled]
    run_burst(site.node, replaced)
    placed = site.placement()
    assert placed.per_node(NVIDIA) == {0: 3, 1: 3, 2: 3, 3: 3}


def test_daemon_ends_politely(site: EquippedNode, daemon: Daemon) -> None:
    pods = four("polite")
    run_one_by_one(site.node, pods)
    held = site.node.held()
    assert daemon.terminate() == 0
    assert site.node.held() == held
    leftover = [path.name for path in site.node.kubelet.device_plugins.iterdir() if path.is_socket()]
    assert leftover == ["kubelet.sock"]
    daemon.start()
    site.wait_registered(daemon)
