"""Devices beside the CPUs under Topology Manager policy none: the real CPU manager chooses as foretold."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from harness.apiserver import fake_cluster
from harness.backend import Tools
from harness.equipped import EquippedNode, equipped_node
from harness.hardware import declare
from harness.kubelet import KubeletOptions
from harness.landing import Landing, land
from harness.logs import LogKeeper
from harness.pods import Pod, unique
from harness.report import Report
from harness.steering import count
from harness.waiters import until

VF = "example.com/vf"
NODES = 4
VFS_EACH = 8
DEVICES = {f"vf-{node}-{number}": node for node in range(NODES) for number in range(VFS_EACH)}
SIZES = (5, 2, 7, 5, 1, 4, 6, 5, 3, 2, 5, 4)
"""Whole CPUs of pods with one VF each; they do not fill the NUMA nodes' 16 CPUs evenly."""


@pytest.fixture(scope="module")
def site(tools: Tools, scratch: Path, logs: LogKeeper) -> Iterator[EquippedNode]:
    with equipped_node(
        tools,
        scratch,
        numa_nodes=NODES,
        options=KubeletOptions(topology_manager_policy="none", static_cpu_manager=True),
        logs=logs,
        cpus_each=16,
        equip=partial(declare, devices={VF: DEVICES}),
    ) as site:
        yield site


def land_known(site: EquippedNode, folder: Path, **settings: Any) -> list[Landing]:
    """Run the pods one by one, each known to the API server before, and return where they are."""
    pods = [Pod.of(unique("vf"), {VF: 1, "cpu": cpus, "memory": "1Gi"}) for cpus in SIZES]
    folder.mkdir()
    with (
        fake_cluster(folder) as cluster,
        site.daemon("least-allocated", steering={}, cluster=cluster, settings=settings) as daemon,
    ):
        until(lambda: count(daemon, "cluster_watch_connected") == 1, "the watch", detail=daemon.tail)
        for pod in pods:
            cluster.announce(pod)
        found = [land(site, [pod])[0] for pod in pods]
    assert all(one.admitted and one.devices and one.cpus for one in found)
    return found


def test_devices_are_where_the_cpus_are(site: EquippedNode, tmp_path: Path, report: Report) -> None:
    beside = land_known(site, tmp_path / "beside")
    apart = land_known(site, tmp_path / "apart", followCPUs=False)
    together, alone = (sum(one.devices <= one.cpus for one in found) for found in (beside, apart))
    report.lines.append(f"VF beside the CPUs of its container: {together} of {len(SIZES)}, else {alone}")
    assert [one.cpus for one in beside] == [one.cpus for one in apart], "the kubelet's choice is its own"
    assert all(one.devices <= one.cpus for one in beside), beside
    assert {tuple(one.devices) for one in apart} == {(node,) for node in range(NODES)}
