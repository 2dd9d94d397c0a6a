"""Under a Topology Manager policy the answer stays inside the mask that the kubelet chose."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.backend import Tools
from harness.equipped import EquippedNode, equipped_node
from harness.flows import Placement, run_burst, run_one_by_one
from harness.hardware import NVIDIA, VF
from harness.kubelet import KubeletOptions
from harness.kubelet_log import affinity_mask
from harness.logs import LogKeeper
from harness.pods import Pod, unique
from harness.report import Report
from harness.waiters import until

POLICIES = ("best-effort", "single-numa-node")
STRATEGIES = ("most-allocated", "least-allocated")


@pytest.fixture(scope="module", params=POLICIES)
def site(
    request: pytest.FixtureRequest, tools: Tools, scratch: Path, logs: LogKeeper
) -> Iterator[EquippedNode]:
    options = KubeletOptions(
        topology_manager_policy=request.param, static_cpu_manager=True, static_memory_manager=True
    )
    with equipped_node(tools, scratch, numa_nodes=4, options=options, logs=logs) as site:
        yield site


def mask_of(site: EquippedNode, placed: Placement, pod: Pod) -> int:
    """Return the kubelet's mask for a pod, after a check that devices and exclusive CPUs are inside."""
    mask = affinity_mask(site.node.kubelet.log, pod.name)
    assert mask, f"{pod.name} has a mask"
    node_of_cpu = site.node.topology.node_of_cpu()
    nodes = placed.nodes(pod.name) | {node_of_cpu[cpu] for cpu in placed.cpus[pod.name]}
    assert nodes <= {node for node in site.node.topology.node_ids if mask >> node & 1}, pod.name
    return mask


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_aligned_pods(site: EquippedNode, strategy: str, report: Report) -> None:
    each = {VF: 1, NVIDIA: 1, "cpu": 1, "memory": "1Gi"}
    pods = [Pod.of(unique("one"), each) for _ in range(4)]
    pods += [Pod.of(unique("two"), each | {VF: 2, NVIDIA: 2}) for _ in range(3)]
    with site.daemon(strategy):
        run_one_by_one(site.node, pods)
        placed = site.placement()
        masks = [mask_of(site, placed, pod) for pod in pods]
        report.rows(
            f"Topology Manager {site.node.policy}, VF and GPU x 1 (4 pods), x 2 (3 pods)",
            {strategy: placed.node_sequence(pods, NVIDIA)},
        )
        assert all(mask.bit_count() == 1 for mask in masks)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_burst(site: EquippedNode, strategy: str) -> None:
    pods = [Pod.of(unique("burst"), {VF: 1, NVIDIA: 1, "cpu": 1, "memory": "1Gi"}) for _ in range(12)]
    with site.daemon(strategy):
        run_burst(site.node, pods)
        placed = site.placement()
        assert all(mask_of(site, placed, pod).bit_count() == 1 for pod in pods)


def test_more_devices_than_one_node_holds(site: EquippedNode) -> None:
    pod = Pod.of(unique("wide"), {NVIDIA: 6, "cpu": 2, "memory": "1Gi"})
    with site.daemon("least-allocated"):
        if site.node.policy == "single-numa-node":
            # Nobody can help such a pod: the Topology Manager refuses it before it asks the plugin.
            site.node.create(pod)
            refusal = until(lambda: site.node.rejected(pod.name), "the kubelet to refuse the pod")
            assert refusal.reason == "TopologyAffinityError"
        else:
            run_one_by_one(site.node, [pod])
            placed = site.placement()
            assert mask_of(site, placed, pod).bit_count() == 2
            assert len(placed.ids(pod.name, NVIDIA)) == 6
