"""What the kubelet does without numaplace: the ground that the other tests stand on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.backend import SimulatedNode, Tools, simulated_node
from harness.flows import placement, run_one_by_one
from harness.kubelet import KubeletOptions
from harness.logs import LogKeeper
from harness.plugin import SmallPlugin
from harness.pods import Container, Pod, unique
from harness.report import Report
from harness.topology import SimulatedTopology

GPU = "example.com/gpu"
NODE_OF = {f"gpu-{node}-{n}": node for node in range(4) for n in range(4)}


@pytest.fixture(scope="module")
def node(tools: Tools, scratch: Path, logs: LogKeeper) -> Iterator[SimulatedNode]:
    topology = SimulatedTopology.uniform(4)
    with simulated_node(tools, scratch, topology=topology, options=KubeletOptions(), logs=logs) as node:
        yield node


@pytest.fixture
def plugin(node: SimulatedNode) -> Iterator[SmallPlugin]:
    plugin = SmallPlugin(
        node.kubelet.device_plugins, GPU, {device: (numa,) for device, numa in NODE_OF.items()}
    )
    plugin.register()
    node.wait_for_devices(GPU, len(NODE_OF))
    yield plugin
    node.clear()
    plugin.stop()


def test_containers_get_devices_at_random(node: SimulatedNode, plugin: SmallPlugin, report: Report) -> None:
    pods = [Pod.of(unique("alone"), {GPU: 2}) for _ in range(8)]
    run_one_by_one(node, pods)
    sequence = placement(node, NODE_OF).node_sequence(pods, GPU)
    report.rows(f"{GPU} x 2, 4 NUMA nodes", {"kubelet alone": sequence})
    # By chance all eight would be whole about once in half a million runs.
    assert any(len(nodes) > 1 for nodes in sequence), "some container's devices come from two NUMA nodes"


def test_init_containers_and_sidecars_run(node: SimulatedNode, plugin: SmallPlugin) -> None:
    pod = Pod(
        unique("layers"),
        containers=(Container("main", {GPU: 1}),),
        init_containers=(
            Container("prepare", {GPU: 2}, ends=True),
            Container("helper", {GPU: 1}, sidecar=True),
        ),
    )
    run_one_by_one(node, [pod])
    assert set(node.held()[pod.name]) == {"helper", "main"}
