"""Pods on real NUMA nodes: where their VFs, their CPUs and their memory come from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from guest.node import CONFIGURATION
from guest.site import NET, POD_SECONDS, VFIO, Site
from harness.flows import run_one_by_one
from harness.kubelet import KubeletOptions
from harness.pods import Pod, unique
from harness.report import Report
from harness.waiters import until
from numaplace.devices.host import parse_cpulist

EACH = {NET: 1, VFIO: 1, "cpu": 1, "memory": "64Mi"}
ALIGNED = ("single-numa-node", "restricted", "best-effort")


@pytest.fixture(autouse=True)
def no_pods_left(site: Site) -> Iterator[None]:
    yield
    site.node.clear()


def aligned(policy: str) -> KubeletOptions:
    """A kubelet that gives pods exclusive CPUs and memory of the NUMA node where it puts their devices."""
    return KubeletOptions(
        topology_manager_policy=policy,
        static_cpu_manager=True,
        extra={
            "memoryManagerPolicy": "Static",
            "systemReserved": {"memory": "100Mi"},
            "reservedMemory": [{"numaNode": 0, "limits": {"memory": "200Mi"}}],
        },
    )


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("most-allocated", [(0,), (0,), (1,), (1,)]), ("least-allocated", [(0,), (1,), (0,), (1,)])],
)
def test_strategy_chooses_the_vfs(
    site: Site, strategy: str, expected: list[tuple[int, ...]], report: Report
) -> None:
    site.under(KubeletOptions())
    site.serve(strategy)
    pods = [Pod.of(unique("p"), {NET: 2}) for _ in expected]
    run_one_by_one(site.node, pods, limit_seconds=POD_SECONDS)
    sequence = site.placement().node_sequence(pods, NET)
    report.rows("Topology Manager none, VF x 2", {strategy: sequence})
    assert sequence == expected


@pytest.mark.parametrize("policy", ALIGNED)
def test_topology_manager_follows_the_strategy(site: Site, policy: str, report: Report) -> None:
    site.under(aligned(policy))
    rows: dict[str, list[tuple[int, ...]]] = {}
    # What the kubelet does by itself is the same under all three.
    for mode in ("off", "auto") if policy == ALIGNED[0] else ("auto",):
        steering = {"mode": mode, "requests": [EACH]}
        site.serve("least-allocated", more={"steering": steering, "kubelet": {"configFile": CONFIGURATION}})
        pods = [Pod.of(unique("p"), EACH) for _ in range(3)]
        for number, pod in enumerate(pods):
            if mode == "auto":
                # One pod on NUMA node 0 makes it the fuller one, in CPUs also after the next.
                wait_withheld(site, {NET: {0}, VFIO: {0}} if number else {})
            run_one_by_one(site.node, [pod], limit_seconds=POD_SECONDS)
        rows[f"steering {mode}"] = site.placement().node_sequence(pods, NET)
        for pod in pods:
            check_alignment(site, pod)
        site.node.clear()
    report.rows(f"Topology Manager {policy}, least-allocated, two VFs, a CPU and memory", rows)
    expected = {"steering off": [(0,), (0,), (1,)], "steering auto": [(0,), (1,), (1,)]}
    assert rows == {name: expected[name] for name in rows}


def check_alignment(site: Site, pod: Pod) -> None:
    """Check that PodResources, the container's own cgroup and its devices agree on one NUMA node."""
    (node,) = site.placement().nodes(pod.name)
    held = site.node.held()[pod.name]["main"]
    seen = site.node.given(pod.name, "main")
    assert len(held.cpus) == 1
    assert held.cpus <= site.guest.numa_nodes()[node]
    assert parse_cpulist(seen.cpus) == held.cpus
    assert parse_cpulist(seen.memory) == {node}
    assert {vf: one["problem"] for vf, one in seen.vfio.items()} == dict.fromkeys(held.devices[VFIO], "")


def wait_withheld(site: Site, expected: dict[str, set[int]]) -> None:
    """Wait until steering publishes the free devices of just these NUMA nodes without topology."""

    def withheld() -> dict[str, set[int]]:
        found: dict[str, set[int]] = {}
        for labels, value in site.daemon.samples("numaplace_steering_withheld_devices"):
            if value:
                found.setdefault(labels["resource"], set()).add(int(labels["numa_node"]))
        return found

    until(
        lambda: site.daemon.samples("numaplace_steering_decisions_total") and withheld() == expected,
        f"{expected} to be withheld",
        limit_seconds=60,
        detail=lambda: (withheld(), site.daemon.samples("numaplace_steering_decisions_total")),
    )
