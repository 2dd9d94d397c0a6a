"""Topology Manager policy none: devices follow the strategy, next to what the kubelet alone does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.backend import Tools
from harness.equipped import EquippedNode, equipped_node
from harness.flows import placement, run_one_by_one
from harness.hardware import NVIDIA, VF
from harness.kubelet import KubeletOptions
from harness.logs import LogKeeper
from harness.plugin import SmallPlugin
from harness.pods import Pod, unique
from harness.report import Report

ALONE = "example.com/alone"


@pytest.fixture(scope="module", params=[2, 4], ids=["2-numa-nodes", "4-numa-nodes"])
def site(
    request: pytest.FixtureRequest, tools: Tools, scratch: Path, logs: LogKeeper
) -> Iterator[EquippedNode]:
    options = KubeletOptions()
    with equipped_node(tools, scratch, numa_nodes=request.param, options=options, logs=logs) as site:
        yield site


def pods_of(site: EquippedNode, resource: str, each: int) -> list[Pod]:
    """Two pods for each NUMA node."""
    count = 2 * len(site.node.topology.nodes)
    return [Pod.of(unique("p"), {resource: each}) for _ in range(count)]


def run(site: EquippedNode, strategy: str, resource: str, each: int) -> list[tuple[int, ...]]:
    """Run the pods under a strategy; return the NUMA nodes of each pod's devices, in turn."""
    pods = pods_of(site, resource, each)
    with site.daemon(strategy):
        run_one_by_one(site.node, pods)
        return site.placement().node_sequence(pods, resource)


def run_alone(site: EquippedNode, resource: str, each: int) -> list[tuple[int, ...]]:
    """Run the same pods with a plugin that has the same devices and no preference."""
    devices = {device: (numa,) for device, numa in site.hardware.devices[resource].items()}
    plugin = SmallPlugin(site.node.kubelet.device_plugins, ALONE, devices)
    plugin.register()
    try:
        site.node.wait_for_devices(ALONE, len(devices))
        pods = pods_of(site, ALONE, each)
        run_one_by_one(site.node, pods)
        sequence = placement(site.node, site.hardware.node_of).node_sequence(pods, ALONE)
        site.node.clear()
        return sequence
    finally:
        plugin.stop()
        site.node.wait_for_devices(ALONE, 0)


@pytest.mark.parametrize("each", [1, 2])
@pytest.mark.parametrize("resource", [VF, NVIDIA])
def test_strategy_decides_where_devices_come_from(
    site: EquippedNode, resource: str, each: int, report: Report
) -> None:
    numa_nodes = site.node.topology.node_ids
    alone = run_alone(site, resource, each)
    most = run(site, "most-allocated", resource, each)
    least = run(site, "least-allocated", resource, each)
    report.rows(
        f"{resource} x {each}, {len(numa_nodes)} NUMA nodes",
        {"kubelet alone": alone, "most-allocated": most, "least-allocated": least},
    )
    assert all(len(nodes) == 1 for nodes in most + least), "a container's devices come from one NUMA node"
    fit = site.hardware.count(resource) // len(numa_nodes) // each
    assert most == [(number // fit,) for number in range(len(most))], "packs one NUMA node after the other"
    rounds = [least[: len(numa_nodes)], least[len(numa_nodes) :]]
    assert all(sorted(one) == [(n,) for n in numa_nodes] for one in rounds), "spreads evenly at every step"


def test_without_a_strategy_a_container_still_gets_one_numa_node(site: EquippedNode, report: Report) -> None:
    sequence = run(site, "none", NVIDIA, 2)
    report.rows(f"{NVIDIA} x 2, strategy none", {"none": sequence})
    assert all(len(nodes) == 1 for nodes in sequence)
