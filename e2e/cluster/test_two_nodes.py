"""Two unlike nodes: a configuration for one of them by its label, pods on both, and one that is drained."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cluster.testsite import NodeSite, Site
from harness.hardware import NVIDIA, VF
from harness.waiters import until

_LABEL, _POOL = "example.com/pool", "spread"
_SPREAD = {"name": "spread", "nodeLabel": {_LABEL: _POOL}, "config": {"strategy": "least-allocated"}}


@pytest.fixture
def labelled(site: Site) -> Iterator[NodeSite]:
    """The second node, with a label that gives it a configuration of its own."""
    site.configure("most-allocated", node_configs=[_SPREAD])
    _label(site, f"{_LABEL}={_POOL}", daemon_set="numaplace-spread")
    yield site.other
    _label(site, f"{_LABEL}-", daemon_set="numaplace")


def _label(site: Site, label: str, *, daemon_set: str) -> None:
    site.kubectl("label", "node", site.other.name, label)
    until(
        lambda: site.other.daemon_sets() == {daemon_set},
        f"the daemon of {daemon_set} on {site.other.name}",
        limit_seconds=60,
        detail=site.other.daemon_sets,
    )
    site.wait_rolled_out()


def test_kubelets_have_their_own_numa_nodes(site: Site) -> None:
    print({node.name: node.kubelet_version() for node in site.nodes})
    assert [len(set(node.hardware.node_of.values())) for node in site.nodes] == [2, 4]
    for node in site.nodes:
        assert node.has_all_devices()


def test_label_selects_the_configuration(site: Site, labelled: NodeSite) -> None:
    assert site.node.daemon_sets() == {"numaplace"}
    for node in site.nodes:
        node.deploy(f"pool-{node.name}", {VF: 1, NVIDIA: 1}, replicas=4)
    packed, spread = site.node.placement(), labelled.placement()
    assert sorted(packed.per_node(NVIDIA).values()) == [0, 4]
    assert sorted(spread.per_node(NVIDIA).values()) == [1, 1, 1, 1]
    for node, placed in ((site.node, packed), (labelled, spread)):
        for pod in node.pods_of(f"pool-{node.name}"):
            assert len(placed.nodes(pod)) == 1
            seen = node.given(pod, "main").envs
            assert {seen["PCIDEVICE_INTEL_COM_SRIOV_VF"]} == placed.ids(pod, VF)
            assert {seen["NVIDIA_VISIBLE_DEVICES"]} == placed.ids(pod, NVIDIA)


def test_without_the_label_the_common_configuration_is_back(site: Site) -> None:
    site.configure("most-allocated", node_configs=[_SPREAD])
    assert site.other.daemon_sets() == {"numaplace"}
    site.other.deploy("common", {NVIDIA: 1}, replicas=4)
    assert sorted(site.other.placement().per_node(NVIDIA).values()) == [0, 0, 0, 4]


@pytest.fixture
def uncordoned(site: Site) -> Iterator[None]:
    """Whatever happens, both nodes take pods afterwards."""
    yield
    site.kubectl("uncordon", *(node.name for node in site.nodes))


def test_drained_node(site: Site, uncordoned: None) -> None:
    site.configure("most-allocated")
    drained, other = site.node, site.other
    # Half of the pods on each node, whatever the scheduler thinks of them.
    site.kubectl("cordon", other.name)
    site.both.deploy("moving", {VF: 1, NVIDIA: 1}, replicas=4)
    site.kubectl("uncordon", other.name)
    site.kubectl("cordon", drained.name)
    site.both.scale("moving", 8)
    site.both.wait_scaled("moving", 8)
    stayed = other.held_by("moving")
    assert len(stayed) == len(drained.held_by("moving")) == 4
    daemon = drained.daemon_pod()
    site.kubectl("drain", drained.name, "--ignore-daemonsets", "--timeout=60s", limit_seconds=90)
    site.both.wait_scaled("moving", 8)
    assert not drained.held_by("moving")
    assert drained.daemon_pod() == daemon
    assert drained.has_all_devices()
    moved = other.held_by("moving")
    assert len(moved) == 8
    assert stayed.items() <= moved.items()
    placed = other.placement()
    assert all(len(placed.nodes(pod)) == 1 for pod in moved)
    assert sorted(placed.per_node(NVIDIA).values()) == [0, 0, 4, 4]

    site.kubectl("uncordon", drained.name)
    drained.deploy("back", {VF: 1, NVIDIA: 1}, replicas=drained.hardware.count(NVIDIA))
    placed = drained.placement()
    assert all(len(placed.nodes(pod)) == 1 for pod in drained.pods_of("back"))
    assert other.held_by("moving") == moved
