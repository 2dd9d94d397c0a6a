"""What the kubelet says when it refuses a pod, as docs/troubleshooting.md shows it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.backend import Rejected, Tools
from harness.equipped import EquippedNode, equipped_node
from harness.hardware import NVIDIA, NVIDIA_PER_NODE
from harness.kubelet import KubeletOptions
from harness.logs import LogKeeper
from harness.pods import Pod, unique
from harness.waiters import until

PAGE = (Path(__file__).resolve().parents[1] / "docs/troubleshooting.md").read_text()
ALIGNING = "single-numa-node"


@pytest.fixture(scope="module", params=["none", ALIGNING])
def site(
    request: pytest.FixtureRequest, tools: Tools, scratch: Path, logs: LogKeeper
) -> Iterator[EquippedNode]:
    options = KubeletOptions(topology_manager_policy=request.param)
    with equipped_node(tools, scratch, numa_nodes=2, options=options, logs=logs) as site:
        yield site


def refusal(site: EquippedNode, gpus: int) -> Rejected:
    pod = Pod.of(unique("refused"), {NVIDIA: gpus})
    site.node.create(pod)
    return until(lambda: site.node.rejected(pod.name), f"{pod.name} to be refused")


def test_more_than_a_numa_node_has(site: EquippedNode) -> None:
    with site.daemon("most-allocated"):
        gpus = site.hardware.count(NVIDIA) + 1 if site.node.policy == "none" else NVIDIA_PER_NODE + 1
        said = refusal(site, gpus)
    if site.node.policy == ALIGNING:
        shown(said)
    else:
        assert said.reason == "UnexpectedAdmissionError"
        assert f"requested number of devices unavailable for {NVIDIA}. Requested: {gpus}" in said.message
        assert "`requested number of devices unavailable for …. Requested: 1, Available: 0`" in PAGE


def test_the_plugin_is_away(site: EquippedNode) -> None:
    with site.daemon("most-allocated") as daemon:
        daemon.kill()
        until(lambda: not site.node.allocatable().get(NVIDIA), "the devices to be unhealthy")
        said = refusal(site, 1)
        daemon.start()
    assert said.reason == (
        "TopologyAffinityError" if site.node.policy == ALIGNING else "UnexpectedAdmissionError"
    )
    shown(said)


def shown(said: Rejected) -> None:
    assert f"Reason:   {said.reason}\nMessage:  {said.message}\n" in PAGE
