"""Requests that are known from the API server: all devices of a container come from one NUMA node.

The kubelet asks for one resource after the other, in random order, and a burst's pods are seen half-way.
"""

from __future__ import annotations

from collections import Counter

import pytest
from cluster.testsite import NodeSite, Site
from harness.flows import run_burst, run_one_by_one
from harness.hardware import AMD, AMD_PER_NODE, NVIDIA, VF
from harness.pods import Container, Pod, unique


@pytest.fixture(params=["n1", "n2"])
def node(request: pytest.FixtureRequest, site: Site) -> NodeSite:
    site.configure("most-allocated")
    return dict(zip(("n1", "n2"), site.nodes, strict=True))[request.param]


def first_asked(node: NodeSite, pods: list[Pod]) -> Counter[str]:
    """How often each resource was asked for first, of the pods' only containers."""
    return Counter(node.decisions(pod.name)[0]["resource"] for pod in pods)


def test_first_resource_goes_where_the_others_are_free(node: NodeSite) -> None:
    """Packing alone would put VFs where the first pod has left none of its GPUs."""
    full = Pod.of(unique("full"), {VF: 2, AMD: AMD_PER_NODE})
    run_one_by_one(node, [full], limit_seconds=60)
    pods = [Pod.of(unique("beside"), {VF: 1, AMD: 1}) for _ in range(node.hardware.count(AMD) - AMD_PER_NODE)]
    run_one_by_one(node, pods, limit_seconds=60)
    placed = node.placement()
    assert all(len(placed.nodes(pod.name)) == 1 for pod in pods)
    assert all(not placed.nodes(pod.name) & placed.nodes(full.name) for pod in pods)
    for pod in pods:
        # The kubelet does not ask which of the last devices to take.
        asked = node.decisions(pod.name)
        assert asked
        assert all(one["request"] == {VF: 1, AMD: 1} for one in asked)
    print(f"{node.name}, first asked: {dict(first_asked(node, pods))}")


def test_pods_of_a_burst_do_not_part_a_container(node: NodeSite) -> None:
    numa_nodes = len(set(node.hardware.node_of.values()))
    whole = [Pod.of(unique("whole"), {VF: 1, NVIDIA: 1, AMD: 1}) for _ in range(numa_nodes)]
    single = [Pod.of(unique("single"), {resource: 1}) for resource in (VF, NVIDIA) * numa_nodes]
    two = [
        Pod(unique("two"), (Container("net", {VF: 1}), Container("train", {VF: 1, NVIDIA: 1})))
        for _ in range(numa_nodes)
    ]
    mixed = [pod for pods in zip(whole, single[::2], two, single[1::2], strict=True) for pod in pods]
    run_burst(node, mixed, limit_seconds=120)
    held, node_of = node.held(), node.hardware.node_of
    for pod in [*whole, *two]:
        for name, container in held[pod.name].items():
            numa = {node_of[device] for ids in container.devices.values() for device in ids}
            assert len(numa) == 1, f"{pod.name}/{name}"
