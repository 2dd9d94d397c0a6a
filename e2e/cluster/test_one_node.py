"""What an operator sees of one node: strategies, containers, Events, a daemon that is replaced."""

from __future__ import annotations

import re

import pytest
from cluster.testsite import DAEMON_PODS, Site
from harness.flows import run_one_by_one
from harness.hardware import AMD, NVIDIA, VF
from harness.pods import Pod, unique
from harness.waiters import until


def test_most_allocated_packs_deployments(site: Site) -> None:
    node = site.node
    node.deploy("packed", {VF: 1, NVIDIA: 1}, replicas=2)
    node.scale("packed", 4)
    node.wait_scaled("packed", 4)
    placed = node.placement()
    assert sorted(placed.per_node(NVIDIA).values()) == [0, 4]
    assert sorted(placed.per_node(VF).values()) == [0, 4]
    # A NUMA node that becomes free is used again.
    node.scale("packed", 1)
    node.wait_scaled("packed", 1)
    node.scale("packed", 4)
    node.wait_scaled("packed", 4)
    assert sorted(node.placement().per_node(NVIDIA).values()) == [0, 4]


def test_container_sees_what_the_kubelet_says(site: Site) -> None:
    pod = Pod.of(unique("inside"), {VF: 4, NVIDIA: 2, AMD: 1})
    run_one_by_one(site.node, [pod], limit_seconds=60)
    placed = site.node.placement()
    assert len(placed.nodes(pod.name)) == 1
    seen = site.node.given(pod.name, "main")
    assert set(seen.envs["PCIDEVICE_INTEL_COM_SRIOV_VF"].split(",")) == placed.ids(pod.name, VF)
    assert set(seen.envs["NVIDIA_VISIBLE_DEVICES"].split(",")) == placed.ids(pod.name, NVIDIA)
    gpus = {name for name in seen.devices if name.removeprefix("/dev/nvidia").isdigit()}
    assert len(gpus) == 2
    assert {"/dev/nvidiactl", "/dev/kfd"} <= seen.devices
    rendering = [name for name in seen.devices if name.startswith("/dev/dri/render")]
    assert len(rendering) == 1


@pytest.mark.parametrize(
    ("gpus", "reason", "kind"), [(2, "NUMAPlaced", "Normal"), (5, "NUMASplit", "Warning")]
)
def test_event_says_where_the_devices_are(site: Site, gpus: int, reason: str, kind: str) -> None:
    pod = Pod.of(unique("event"), {NVIDIA: gpus})
    run_one_by_one(site.node, [pod], limit_seconds=60)
    event = until(lambda: site.node.event(pod.name, reason), reason, detail=site.node.daemon_log)
    assert event["type"] == kind
    print(event["message"])
    (said,) = re.findall(r"\) on NUMA ([\d, and]+)", event["message"])
    nodes = site.node.placement().nodes(pod.name)
    assert len(nodes) == (1 if reason == "NUMAPlaced" else 2)
    assert {int(node) for node in re.findall(r"\d+", said)} == nodes


def test_strategy_is_switched_with_helm_upgrade(site: Site) -> None:
    node = site.node
    node.deploy("before", {NVIDIA: 1}, replicas=3)
    held = node.held_by("before")
    (full,) = (numa for numa, number in node.placement().per_node(NVIDIA).items() if number == 3)
    site.configure("least-allocated")
    assert node.held_by("before") == held
    node.deploy("after", {NVIDIA: 1}, replicas=3)
    placed = node.placement()
    assert placed.per_node(NVIDIA) == {0: 3, 1: 3}
    assert all(placed.nodes(pod) == {1 - full} for pod in node.pods_of("after"))


def test_daemon_pod_is_deleted_during_a_burst(site: Site) -> None:
    site.configure("least-allocated")
    node = site.node
    node.deploy("burst", {VF: 1}, replicas=0)
    old = node.daemon_pod()
    node.scale("burst", 12)
    until(lambda: node.held_by("burst"), "the first pod to be admitted", every_seconds=0.02)
    site.api.delete(f"{DAEMON_PODS}/{old}", grace_seconds=0)
    until(lambda: old not in node.daemon_pods(), "the daemon pod to go")
    site.wait_rolled_out()
    # What the kubelet admits without a plugin it refuses; the Deployment makes a new pod for each.
    node.wait_scaled("burst", 12)
    refused = node.refused_pods_of("burst")
    print(f"refused while there was no daemon: {len(refused)}")
    assert set(refused.values()) <= {"UnexpectedAdmissionError"}
    assert node.placement().per_node(VF) == {0: 6, 1: 6}
