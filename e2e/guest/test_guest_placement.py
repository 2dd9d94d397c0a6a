"""Pods on real NUMA nodes: where their VFs, their CPUs and their memory come from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from guest.node import CONFIGURATION
from guest.placing import aligned, check_alignment, wait_withheld
from guest.site import NET, POD_SECONDS, VFIO, Site
from harness.flows import run_one_by_one
from harness.kubelet import KubeletOptions
from harness.pods import Pod, unique
from harness.report import Report

EACH = {NET: 1, VFIO: 1, "cpu": 1, "memory": "64Mi"}
ALIGNED = ("best-effort", "restricted", "single-numa-node")


@pytest.fixture(autouse=True)
def no_pods_left(site: Site) -> Iterator[None]:
    yield
    site.node.clear()


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("most-allocated", [(0,), (0,), (1,)]), ("least-allocated", [(0,), (1,), (0,)])],
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
    for mode in ("off", "auto") if policy == "restricted" else ("auto",):
        steering = {"mode": mode, "requests": [EACH]}
        site.serve("least-allocated", more={"steering": steering, "kubelet": {"configFile": CONFIGURATION}})
        pods = [Pod.of(unique("p"), EACH) for _ in range(2)]
        for number, pod in enumerate(pods):
            if mode == "auto" and number:
                wait_withheld(site, 0)
            run_one_by_one(site.node, [pod], limit_seconds=POD_SECONDS)
        rows[f"steering {mode}"] = site.placement().node_sequence(pods, NET)
        for pod in pods:
            check_alignment(site, pod)
        site.node.clear()
    report.rows(f"Topology Manager {policy}, least-allocated, two VFs, a CPU and memory", rows)
    expected = {"steering off": [(0,), (0,)], "steering auto": [(0,), (1,)]}
    assert rows == {name: expected[name] for name in rows}
