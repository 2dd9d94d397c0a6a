"""The emulator asks a plugin what a real kubelet asks: same calls, same sets, same sizes.

Both are asked about the same pods through the same recording plugin, which answers by sorting ids.
Within one resource the calls must be equal one by one; across the resources of a container the
kubelet's order is random. The Topology Manager's masks are read from the kubelet's log and given
to the emulator, which has no Topology Manager.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from harness import scenario
from harness.backend import SimulatedNode, Tools, simulated_node
from harness.emulated import emulated_kubelet
from harness.flows import run_one_by_one
from harness.kubelet import KubeletOptions
from harness.kubelet_log import affinity_mask
from harness.logs import LogKeeper
from harness.plugin import Call, SmallPlugin, lowest_first
from harness.scenario import Scenario
from harness.topology import SimulatedTopology

SCENARIOS = scenario.load(Path(__file__).parent / "cases/calls.yaml")

Calls = Mapping[str, tuple[Call, ...]]
Masks = Mapping[tuple[str, str], int | None]


@contextlib.contextmanager
def recording(directory: Path, case: Scenario) -> Iterator[dict[str, SmallPlugin]]:
    plugins = {
        resource: SmallPlugin(directory, resource, devices, preference=lowest_first)
        for resource, devices in case.devices.items()
    }
    try:
        yield plugins
    finally:
        for plugin in plugins.values():
            plugin.stop()


def calls_of(plugins: Mapping[str, SmallPlugin]) -> Calls:
    return {resource: tuple(plugin.calls) for resource, plugin in plugins.items()}


def run_on_kubelet(node: SimulatedNode, case: Scenario) -> tuple[Calls, Masks]:
    """Return the calls by resource, and the Topology Manager's mask by (pod, container)."""
    with recording(node.kubelet.device_plugins, case) as plugins:
        for resource, plugin in plugins.items():
            plugin.register()
            node.wait_for_devices(resource, len(case.devices[resource]))
        run_one_by_one(node, case.pods)
        masks = {
            (pod.name, container.name): affinity_mask(node.kubelet.log, pod.name, container.name)
            for pod in case.pods
            for container in (*pod.init_containers, *pod.containers)
        }
        node.clear()
        return calls_of(plugins), masks


def run_on_emulator(folder: Path, case: Scenario, masks: Masks) -> Calls:
    with (
        emulated_kubelet(folder, scenario.NUMA_NODES) as kubelet,
        recording(kubelet.device_plugins, case) as plugins,
    ):
        for resource, plugin in plugins.items():
            plugin.register()
            kubelet.wait_for_devices(resource, len(case.devices[resource]))
        for pod in case.pods:
            kubelet.admit(pod, masks)
        return calls_of(plugins)


@pytest.fixture(scope="module")
def node(
    request: pytest.FixtureRequest, tools: Tools, scratch: Path, logs: LogKeeper
) -> Iterator[SimulatedNode]:
    topology = SimulatedTopology.uniform(scenario.NUMA_NODES)
    options = KubeletOptions(topology_manager_policy=request.param)
    with simulated_node(tools, scratch, topology=topology, options=options, logs=logs) as node:
        yield node


@pytest.mark.parametrize(
    ("node", "case"),
    [pytest.param(case.policy, case, id=case.id) for case in SCENARIOS],
    indirect=["node"],
)
def test_emulator_makes_the_kubelets_calls(node: SimulatedNode, case: Scenario, scratch: Path) -> None:
    expected, masks = run_on_kubelet(node, case)
    assert run_on_emulator(scratch / f"e{SCENARIOS.index(case)}", case, masks) == expected
