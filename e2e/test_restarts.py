"""Kubelet and daemon come and go; pods keep what they have, and the strategy goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from harness.backend import Tools
from harness.daemon import Daemon
from harness.equipped import EquippedNode, equipped_node
from harness.flows import run_burst, run_one_by_one, wait_settled
from harness.hardware import NVIDIA, VF
from harness.kubelet import KubeletOptions
from harness.logs import LogKeeper
from harness.pods import Pod, unique
from harness.waiters import until


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
    return [Pod.of(unique(prefix), {VF: 1, NVIDIA: 1}) for _ in range(4)]


def assert_one_pod_on_each_node(site: EquippedNode, pods: list[Pod]) -> None:
    placed = site.placement()
    assert sorted(tuple(placed.nodes(pod.name)) for pod in pods) == [(0,), (1,), (2,), (3,)]


def assert_unchanged(site: EquippedNode, held: Mapping[str, object]) -> None:
    """The pods of ``held`` are there and hold what they held."""
    now = site.node.held()
    assert {name: now[name] for name in held} == held


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
    # The kubelet reads its pods again, one after the other.
    until(lambda: site.node.held() == held, "the pods to be there with the same devices")
    after = four("after")
    run_one_by_one(site.node, after)
    assert_unchanged(site, held)
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
    assert_unchanged(site, held)
    assert_one_pod_on_each_node(site, after)


def test_daemon_is_killed_in_the_middle_of_a_burst(site: EquippedNode, daemon: Daemon) -> None:
    pods = [Pod.of(unique("mid"), {NVIDIA: 1}) for _ in range(12)]
    for pod in pods:
        site.node.create(pod)
    until(lambda: any(site.node.running(pod.name) for pod in pods), "the first pod to run")
    daemon.kill()
    daemon.start()
    site.wait_registered(daemon)
    # The kubelet itself refuses what it admits in the gap: the resource has no plugin then. Whoever
    # owns such a pod makes a new one; so does this test.
    refused = wait_settled(site.node, pods)
    for pod in refused:
        site.node.delete(pod.name)
    run_burst(site.node, [Pod.of(unique("again"), {NVIDIA: 1}) for _ in refused])
    assert site.placement().per_node(NVIDIA) == {0: 3, 1: 3, 2: 3, 3: 3}


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
