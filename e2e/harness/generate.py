"""Scenarios made from a seed: machines, kubelet configurations and pod mixes that a kubelet accepts.

The same seed gives the same scenario on every machine. Sizes are bounded so that the plain merge, which
walks the product of all hints, stays under about 100,000 combinations for each container.
"""

from __future__ import annotations

import random
from typing import Any

from harness.generate_node import Machine, make_machine
from harness.generate_pods import PodMaker

Scenario = dict[str, Any]

_POLICIES = {"none": 1, "best-effort": 3, "restricted": 3, "single-numa-node": 3}
_MAX_STEPS = 14


def generate_scenario(seed: int, *, uncore_caches: bool = False) -> Scenario:
    """Return the scenario of a seed.

    ``uncore_caches`` also draws machines with ``cpuTopology.uncoreCaches``, which is not in the contract.
    """
    rng = random.Random(seed)
    machine = make_machine(rng, uncore_caches=uncore_caches)
    kubelet = make_kubelet(rng, machine, policies=_POLICIES)
    pods = PodMaker(
        rng, machine, single_numa=kubelet["topologyManagerPolicy"] in ("none", "single-numa-node")
    )
    return {
        "node": machine.spec,
        "kubelet": kubelet,
        "placement": {"enforcement": "off"},
        "steps": _steps(rng, machine, pods),
    }


def make_kubelet(rng: random.Random, machine: Machine, *, policies: dict[str, int]) -> Scenario:
    """Return a kubelet section for the machine; ``policies`` are the Topology Manager's, with weights."""
    policy = _pick(rng, policies)
    config: Scenario = {
        "topologyManagerPolicy": policy,
        "topologyManagerScope": rng.choice(["container", "container", "pod"]),
        "cpuManagerPolicy": _pick(rng, {"none": 1, "static": 6}),
        "memoryManagerPolicy": _pick(rng, {"None": 2, "Static": 3}) if machine.memory_nodes else "None",
    }
    options: dict[str, str] = {}
    # The kubelet takes a distance's column for a NUMA node id, and panics where ids are sparse.
    if machine.dense and rng.random() < 0.35:
        options["prefer-closest-numa-nodes"] = rng.choice(["true", "true", "false"])
    if rng.random() < 0.15:
        options["max-allowable-numa-nodes"] = str(rng.choice([8, 9, 16]))
    if options:
        config["topologyManagerPolicyOptions"] = options
    if config["cpuManagerPolicy"] == "static":
        config["reservedSystemCPUs"] = _list_of(_reserved_cpus(rng, machine))
        if options := _cpu_options(rng, machine, policy=policy):
            config["cpuManagerPolicyOptions"] = options
            config["featureGates"] = {"CPUManagerPolicyAlphaOptions": True}
    if config["memoryManagerPolicy"] == "Static":
        config["reservedMemory"] = _reserved_memory(rng, machine)
    return config


def _cpu_options(rng: random.Random, machine: Machine, *, policy: str) -> dict[str, str]:
    """Draw options that go together (``NewStaticPolicyOptions``, ``ValidateStaticPolicyOptions``)."""
    wanted = {
        name
        for name in (
            "full-pcpus-only",
            "distribute-cpus-across-numa",
            "align-by-socket",
            "distribute-cpus-across-cores",
            "strict-cpu-reservation",
            "prefer-align-cpus-by-uncorecache",
        )
        if rng.random() < 0.25
    }
    if policy == "single-numa-node" or machine.sockets > len(machine.cpu_nodes):
        wanted.discard("align-by-socket")
    if "distribute-cpus-across-cores" in wanted:
        wanted -= {"full-pcpus-only", "distribute-cpus-across-numa", "prefer-align-cpus-by-uncorecache"}
    if "prefer-align-cpus-by-uncorecache" in wanted:
        wanted.discard("distribute-cpus-across-numa")
    return dict.fromkeys(sorted(wanted), "true")


def _reserved_cpus(rng: random.Random, machine: Machine) -> list[int]:
    cpus = sorted(cpu for cpus in machine.cpus.values() for cpu in cpus)
    kind = rng.random()
    if kind < 0.5:
        return machine.cores[0]
    if kind < 0.7:
        return [rng.choice(cpus)]
    return sorted(rng.sample(cpus, rng.randint(1, max(1, len(cpus) // 6))))


def _reserved_memory(rng: random.Random, machine: Machine) -> list[Scenario]:
    nodes = rng.sample(machine.memory_nodes, rng.randint(1, len(machine.memory_nodes)))
    return [
        {"numaNode": node, "limits": {"memory": f"{rng.choice([128, 256, 512])}Mi"}} for node in sorted(nodes)
    ]


def _steps(rng: random.Random, machine: Machine, pods: PodMaker) -> list[Scenario]:
    steps: list[Scenario] = []
    alive: list[str] = []
    sick: list[tuple[str, list[str]]] = []
    for _ in range(rng.randint(3, _MAX_STEPS)):
        draw = rng.random()
        if alive and draw < 0.22:
            steps.append({"delete": alive.pop(rng.randrange(len(alive)))})
        elif machine.devices and draw < 0.30:
            resource = rng.choice(sorted(machine.devices))
            ids = rng.sample(machine.devices[resource], rng.randint(1, len(machine.devices[resource])))
            sick.append((resource, sorted(ids)))
            steps.append({"unhealthy": {"resource": resource, "ids": sorted(ids)}})
        elif sick and draw < 0.38:
            resource, ids = sick.pop()
            steps.append({"healthy": {"resource": resource, "ids": ids}})
        else:
            pod = pods.make(f"p{len(steps)}")
            alive.append(pod["name"])
            steps.append({"create": pod})
    return steps


def _pick(rng: random.Random, weights: dict[str, int]) -> str:
    return rng.choices(list(weights), list(weights.values()))[0]


def _list_of(cpus: list[int]) -> str:
    return ",".join(map(str, cpus))
