"""One story on one cluster, step after step: installed, used, reconfigured, disturbed, removed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from cluster.testsite import DAEMON_PODS, NAMESPACE, Site
from harness.flows import run_one_by_one
from harness.hardware import AMD, NVIDIA, VF
from harness.pods import Pod, unique
from harness.waiters import until

_OURS = "labelSelector=app.kubernetes.io/name%3Dnumaplace"


@pytest.fixture(autouse=True)
def no_pods_left(site: Site) -> Iterator[None]:
    yield
    site.both.clear()


def test_install(site: Site) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "privileged"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}
    site.api.create("/api/v1/namespaces", namespace)
    site.helm.install(site.values("most-allocated"))
    site.wait_rolled_out()
    for node in site.nodes:
        expected = {name: str(len(devices)) for name, devices in node.hardware.devices.items()}
        until(
            lambda node=node, expected=expected: node.capacity() == expected,
            f"the status of {node.name} to have all devices",
            detail=node.capacity,
        )
    assert "successfully rolled out" in site.kubectl("rollout", "status", "ds/numaplace")


def test_daemon_has_no_privilege(site: Site) -> None:
    status = site.node.execute("cat", "/proc/1/status")
    lines = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    capabilities = {lines[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
    assert capabilities == {"0" * 16}
    assert lines["NoNewPrivs"] == "1"
    assert lines["Seccomp"] == "2"


def test_most_allocated_packs_deployments(site: Site) -> None:
    site.node.deploy("packed", {VF: 1, NVIDIA: 1}, replicas=2)
    site.node.scale("packed", 4)
    site.node.wait_scaled("packed", 4)
    placed = site.node.placement()
    assert sorted(placed.per_node(NVIDIA).values()) == [0, 4]
    assert sorted(placed.per_node(VF).values()) == [0, 4]
    # A node that becomes free is used again.
    site.node.scale("packed", 1)
    site.node.wait_scaled("packed", 1)
    site.node.scale("packed", 4)
    site.node.wait_scaled("packed", 4)
    assert sorted(site.node.placement().per_node(NVIDIA).values()) == [0, 4]


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
    event = until(
        lambda: site.node.event(pod.name, reason), f"the event {reason}", detail=site.node.daemon_log
    )
    assert event["type"] == kind
    print(event["message"])
    (said,) = re.findall(r"\) on NUMA ([\d, and]+)", event["message"])
    nodes = site.node.placement().nodes(pod.name)
    assert len(nodes) == (1 if reason == "NUMAPlaced" else 2)
    assert {int(node) for node in re.findall(r"\d+", said)} == nodes


def test_inspect_in_the_daemon(site: Site) -> None:
    site.node.deploy("shown", {NVIDIA: 3}, replicas=1)
    report = json.loads(site.node.execute("numaplace", "inspect", "--sysfs", "/host/sys", "--output", "json"))
    (gpus,) = (resource for resource in report["resources"] if resource["name"] == NVIDIA)
    assert gpus["largestSingleNodeFit"] == 4
    assert NVIDIA in site.node.execute("numaplace", "inspect", "--sysfs", "/host/sys")


def test_strategy_is_switched_with_helm_upgrade(site: Site) -> None:
    site.node.deploy("before", {NVIDIA: 1}, replicas=3)
    held = site.node.held_by("before")
    (full,) = (node for node, number in site.node.placement().per_node(NVIDIA).items() if number == 3)
    site.helm.upgrade(site.values("most-allocated"), "config.strategy=least-allocated")
    site.wait_rolled_out()
    assert site.node.held_by("before") == held
    site.node.deploy("after", {NVIDIA: 1}, replicas=3)
    placed = site.node.placement()
    assert placed.per_node(NVIDIA) == {0: 3, 1: 3}
    assert all(placed.nodes(pod) == {1 - full} for pod in site.node.pods_of("after"))


def test_daemon_pod_is_deleted_during_a_burst(site: Site) -> None:
    site.node.deploy("burst", {VF: 1}, replicas=0)
    old = site.node.daemon_pod()
    site.node.scale("burst", 12)
    until(lambda: site.node.held_by("burst"), "the first pod to be admitted", every_seconds=0.02)
    site.api.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/{old}", grace_seconds=0)
    until(lambda: old not in site.node.daemon_pods(), "the daemon pod to go")
    site.wait_rolled_out()
    # What the kubelet admits without a plugin it refuses; the Deployment makes a new pod for each.
    site.node.wait_scaled("burst", 12)
    refused = site.node.refused_pods_of("burst")
    print(f"refused while there was no daemon: {len(refused)}")
    assert set(refused.values()) <= {"UnexpectedAdmissionError"}
    assert site.node.placement().per_node(VF) == {0: 6, 1: 6}


def test_uninstall_leaves_nothing(site: Site) -> None:
    site.node.deploy("survivor", {VF: 1}, replicas=1)
    held = site.node.held_by("survivor")
    site.helm.uninstall()
    until(lambda: not site.api.items(DAEMON_PODS), "the daemon pods to go", limit_seconds=60)
    for node in site.nodes:
        assert node.sockets() == ["kubelet.sock"]
        until(
            lambda node=node: not node.allocatable().keys() & node.hardware.devices.keys(),
            f"the kubelet of {node.name} to have none of the devices",
            detail=node.allocatable,
        )
        until(
            lambda node=node: set(node.capacity().values()) == {"0"},
            f"the status of {node.name} to say 0",
            detail=node.capacity,
        )
    assert site.node.held_by("survivor") == held
    leftovers = {
        kind: [one["metadata"]["name"] for one in site.api.items(path)]
        for kind, path in {
            "daemonsets": f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets",
            "configmaps": f"/api/v1/namespaces/{NAMESPACE}/configmaps",
            "serviceaccounts": f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts",
            "secrets": f"/api/v1/namespaces/{NAMESPACE}/secrets",
            "cluster roles": f"/apis/rbac.authorization.k8s.io/v1/clusterroles?{_OURS}",
            "cluster role bindings": f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings?{_OURS}",
        }.items()
    }
    assert leftovers == {
        "daemonsets": [],
        "configmaps": ["kube-root-ca.crt"],
        "serviceaccounts": ["default"],
        "secrets": [],
        "cluster roles": [],
        "cluster role bindings": [],
    }
