"""Scenario files (tests/cases/scenarios) on a real kubelet: hardware, configuration, shares and pods."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from numaplace.model.quantity import parse_quantity
from numaplace.reading.names import parse_cpu_list

from harness.backend import Tools, simulated_node
from harness.conformance import normalise
from harness.equipped import EquippedNode
from harness.flows import run_one_by_one
from harness.hardware import declare
from harness.kubelet import KubeletOptions
from harness.logs import LogKeeper
from harness.plugin import Call, SmallPlugin
from harness.pods import Container, Pod, unique
from harness.topology import NumaNode, SimulatedTopology

Scenario = Mapping[str, Any]

_EVICTION_BYTES = 100 << 20


def load_case(file: Path) -> tuple[Scenario, dict[str, Scenario]]:
    """Return a case's scenario, and its variants by id."""
    case = yaml.safe_load(file.read_text())
    return case["scenario"], {one["id"]: one for one in case["variants"]}


def merged(scenario: Scenario, variant: Scenario) -> dict[str, Any]:
    """Return the scenario of a variant."""
    changed = {key: variant[key] for key in ("placement", "steps") if key in variant}
    return {**scenario, **changed, "kubelet": {**scenario.get("kubelet", {}), **variant.get("kubelet", {})}}


@contextlib.contextmanager
def scenario_node(
    tools: Tools, scratch: Path, scenario: Scenario, *, logs: LogKeeper
) -> Iterator[EquippedNode]:
    """Start a kubelet on the scenario's hardware, with its configuration; its devices are declared ones."""
    nodes = scenario["node"]["numaNodes"]
    topology = SimulatedTopology(
        tuple(
            NumaNode(
                one["id"], tuple(sorted(parse_cpu_list(one["cpus"]))), int(parse_quantity(one["memory"]))
            )
            for one in nodes
        )
    )
    options = _options(scenario["kubelet"])
    with simulated_node(tools, scratch, topology=topology, options=options, logs=logs) as node:
        hardware = declare(node.folder / "host", topology, devices=_devices(scenario))
        yield EquippedNode(node, hardware, logs)


def _devices(scenario: Scenario) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for entry in normalise(scenario)["node"].get("devices", []):
        found.setdefault(entry["resource"], {}).update(dict.fromkeys(entry["ids"], entry["numa"]))
    return found


def _options(kubelet: Scenario) -> KubeletOptions:
    keys = dict(kubelet)
    policy = keys.pop("topologyManagerPolicy", "none")
    scope = keys.pop("topologyManagerScope", "container")
    reserved = keys.get("reservedMemory", [])
    total = sum(int(parse_quantity(one["limits"]["memory"])) for one in reserved)
    if reserved:
        # The kubelet demands that what is reserved of nodes is system reserved + hard eviction threshold.
        keys["systemReserved"] = {"memory": str(total - _EVICTION_BYTES)}
    return KubeletOptions(topology_manager_policy=policy, topology_manager_scope=scope, extra=keys)


def pod_of(step: Scenario) -> Pod:
    """Return the pod of a ``create`` step, under a name of its own."""
    containers = tuple(
        Container(one["name"], {key: amount for key, amount in one.items() if key != "name"})
        for one in step["containers"]
    )
    return Pod(unique(step["name"]), containers)


def fill(site: EquippedNode, shares: Sequence[Scenario]) -> list[Pod]:
    """Run a pod for each of the scenario's shares, on its NUMA node; their devices stay allocated.

    Each share has to ask for devices: their plugin shows the topology of that NUMA node's only.
    """
    pods = []
    for share in shares:
        limits = {key: amount for key, amount in share.items() if key != "numa"}
        pod = Pod.of(unique("share"), limits)
        with _only(site, share["numa"]):
            run_one_by_one(site.node, [pod])
        pods.append(pod)
    return pods


@contextlib.contextmanager
def _only(site: EquippedNode, numa: int) -> Iterator[None]:
    """Offer all devices, with the topology of one NUMA node's only, and prefer those."""
    plugins = [
        SmallPlugin(
            site.node.kubelet.device_plugins,
            resource,
            {id_: (node,) if node == numa else () for id_, node in devices.items()},
            preference=partial(_local_first, devices, numa),
        )
        for resource, devices in site.hardware.devices.items()
    ]
    try:
        for plugin in plugins:
            plugin.register()
        for resource, devices in site.hardware.devices.items():
            site.node.wait_for_devices(resource, len(devices))
        yield
    finally:
        for plugin in plugins:
            plugin.stop()


def _local_first(devices: Mapping[str, int], numa: int, call: Call) -> list[str]:
    rest = sorted(call.available - call.must_include, key=lambda one: (devices[one] != numa, one))
    return (sorted(call.must_include) + rest)[: call.size]
