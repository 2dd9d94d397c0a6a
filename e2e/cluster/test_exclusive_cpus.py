"""A kubelet that hands out exclusive CPUs: the devices of a container are beside them, its CPUs are known."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cluster.anycluster import KUBELET_CONFIGURATION
from cluster.testsite import NodeSite, Site
from harness.flows import run_one_by_one
from harness.hardware import NVIDIA, VF
from harness.pods import Pod, unique

_STATIC = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}
# A whole CPU has to be left of the one that is not reserved.
_VALUES = {
    "config": {"kubelet": {"configFile": KUBELET_CONFIGURATION}},
    "resources": {"requests": {"cpu": "0"}},
}


@pytest.fixture
def pinning(site: Site) -> Iterator[NodeSite]:
    """The first node, with a static CPU manager."""
    with site.node.kubelet_with(_STATIC):
        site.configure("most-allocated", over=_VALUES)
        yield site.node
        site.both.clear()
    site.configure("most-allocated")


def test_devices_are_beside_the_exclusive_cpu(pinning: NodeSite) -> None:
    """The one CPU that can be had is on NUMA node 1. Packing alone would go on with node 0."""
    packed = Pod.of(unique("packed"), {VF: 2, NVIDIA: 2})
    pinned = Pod.of(unique("pinned"), {VF: 1, NVIDIA: 1, "cpu": 1, "memory": "64Mi"})
    run_one_by_one(pinning, [packed, pinned], limit_seconds=60)
    placed = pinning.placement()
    assert placed.nodes(packed.name) == {0}
    assert placed.cpus[pinned.name] == {1}
    assert pinning.given(pinned.name, "main").cpus == "1"
    asked = pinning.decisions(pinned.name)
    print([one["why"] for one in asked])
    assert {one["resource"] for one in asked} == {VF, NVIDIA}
    assert all(one["request"] == {VF: 1, NVIDIA: 1, "cpu": 1, "memory": 64 << 20} for one in asked)
    assert placed.nodes(pinned.name) == {1}
