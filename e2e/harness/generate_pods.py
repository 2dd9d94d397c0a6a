"""Pods for ``generate.py``: all QoS classes, init containers, sidecars, hugepages, devices."""

from __future__ import annotations

import random
from typing import Any

from harness.generate_node import Machine

Scenario = dict[str, Any]

# How many resources of a pod may have hints over this many NUMA nodes: (2^nodes - 1)^resources stays small.
MAX_HINTED = {1: 6, 2: 6, 3: 5, 4: 4, 5: 3, 6: 2, 7: 2, 8: 2}


class PodMaker:
    """Draws pods for one machine. ``single_numa``: the policy merges only one hint per NUMA node."""

    def __init__(self, rng: random.Random, machine: Machine, *, single_numa: bool) -> None:
        self._rng = rng
        self._machine = machine
        self._most_hinted = 6 if single_numa else MAX_HINTED[len(machine.ids)]
        most_cpus = max(len(cpus) for cpus in machine.cpus.values())
        # Up to a node and a half: most pods fit a node, some need two.
        self._cpu_sizes = range(1, max(2, most_cpus * 3 // 2) + 1)
        self._memory_mib = max(256, max(machine.memory_mib.values()))

    def make(self, name: str) -> Scenario:
        """Return a pod of one class; its containers draw from the same few resources."""
        rng = self._rng
        kind = rng.choices(["integral", "fractional", "burstable", "best-effort"], [12, 2, 2, 1])[0]
        resources = self._resources(kind)
        pod: Scenario = {"name": name}
        init = [
            self._init(f"i{index}", kind, resources) for index in range(rng.choices([0, 1, 2], [6, 3, 1])[0])
        ]
        if init:
            pod["initContainers"] = init
        number = rng.choices([1, 2, 3], [6, 3, 1])[0]
        pod["containers"] = [
            self._container(f"c{index}", kind, resources, share=number) for index in range(number)
        ]
        return pod

    def _resources(self, kind: str) -> list[str]:
        """Choose hugepages and devices; CPUs and memory have hints already."""
        machine, rng = self._machine, self._rng
        extra = list(machine.devices) * 2 + (list(machine.hugepages_mib) if kind != "best-effort" else [])
        room = self._most_hinted - (2 if kind == "integral" else 1)
        wanted = min(room, rng.choices([0, 1, 2, 3], [4, 5, 2, 1])[0])
        chosen: list[str] = []
        while extra and len(chosen) < wanted:
            resource = rng.choice(extra)
            chosen.append(resource)
            extra = [other for other in extra if other != resource]
        return chosen

    def _init(self, name: str, kind: str, resources: list[str]) -> Scenario:
        container = self._container(name, kind, resources, share=2)
        if self._rng.random() < 0.4:
            container["restartPolicy"] = "Always"
        return container

    def _container(self, name: str, kind: str, resources: list[str], *, share: int) -> Scenario:
        rng = self._rng
        container: Scenario = {"name": name}
        amounts: Scenario = {}
        for resource in resources:
            if rng.random() < 0.75:
                amounts[resource] = self._amount(resource)
        if kind == "best-effort":
            return container | amounts
        memory = max(64, rng.choice([1, 2, 4, 6, 9, 12]) * self._memory_mib // 8 // share // 64 * 64)
        if kind == "burstable":
            requests = {"cpu": f"{rng.choice([100, 500, 1000])}m", "memory": f"{memory // 2}Mi"}
            return container | {
                "requests": requests | amounts,
                "limits": {"cpu": 2, "memory": f"{memory}Mi"} | amounts,
            }
        return container | {"cpu": self._cpus(kind, share), "memory": f"{memory}Mi"} | amounts

    def _cpus(self, kind: str, share: int) -> int | str:
        rng, threads = self._rng, self._machine.threads
        if kind == "fractional":
            return f"{rng.choice([500, 1500, 2500])}m"
        size = max(1, rng.choice(self._cpu_sizes) // share)
        # Whole cores most of the time, or full-pcpus-only would refuse nearly every pod.
        return max(threads, size // threads * threads) if rng.random() < 0.7 else size

    def _amount(self, resource: str) -> int | str:
        rng = self._rng
        if resource == "hugepages-1Gi":
            return f"{rng.choice([1, 1, 2, 4])}Gi"
        if resource == "hugepages-2Mi":
            return f"{rng.choice([2, 256, 1024, 2048])}Mi"
        return rng.choice([1, 1, 1, 2, 2, 3, 4])
