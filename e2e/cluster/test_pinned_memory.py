"""A kubelet that pins memory: the devices of a container are where the memory is that it is known to ask for.

The machine's memory is all of NUMA node 0. So the other node has next to none to give, and pods that hold
some need not be made up.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cluster.testsite import NodeSite, Site
from harness.flows import run_one_by_one
from harness.hardware import NVIDIA, VF
from harness.pods import Pod, unique

_STATIC = {
    "memoryManagerPolicy": "Static",
    # What is reserved of NUMA nodes has to be this and the threshold of eviction. 1Gi is left.
    "systemReserved": {"memory": "7068Mi"},
    "reservedMemory": [{"numaNode": 1, "limits": {"memory": "7168Mi"}}],
}


@pytest.fixture
def pinning(site: Site) -> Iterator[NodeSite]:
    """The first node, with a Static memory manager."""
    with site.node.kubelet_with(_STATIC):
        site.configure("least-allocated")
        yield site.node
        site.both.clear()
    site.configure("most-allocated")


def test_devices_are_where_the_memory_is(pinning: NodeSite) -> None:
    """Spreading alone would go from node to node."""
    limits = {VF: 1, "cpu": "10m", "memory": "2Gi"}
    pods = [Pod.of(unique("pinned"), limits), Pod.of(unique("pinned"), {**limits, NVIDIA: 1})]
    free = Pod.of(unique("free"), {VF: 1})
    run_one_by_one(pinning, [*pods, free], limit_seconds=60)
    placed, held = pinning.placement(), pinning.held()
    assert placed.nodes(free.name) == {1}
    for pod in pods:
        assert held[pod.name]["main"].memory == {"memory": {0}}
        assert pinning.given(pod.name, "main").memory_nodes == "0"
        assert placed.nodes(pod.name) == {0}
        first = pinning.decisions(pod.name)[0]
        print(first["why"])
        assert first["rest"] == {"memory": 2 << 30}
