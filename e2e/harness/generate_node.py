"""Machines for ``generate.py``: NUMA nodes, cores, sockets, memory, distances, devices."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

Scenario = dict[str, Any]

HUGEPAGES = ("hugepages-1Gi", "hugepages-2Mi")
RESOURCES = ("example.com/gpu", "example.com/vf", "example.com/any")


@dataclass
class Machine:
    """A machine as a scenario's ``node`` section, and what the pods' maker needs to know of it."""

    ids: list[int]
    spec: Scenario = field(default_factory=dict)
    cpus: dict[int, list[int]] = field(default_factory=dict)  # by NUMA node; CPU-less ones are missing
    cores: list[list[int]] = field(default_factory=list)
    threads: int = 1
    sockets: int = 0
    memory_mib: dict[int, int] = field(default_factory=dict)  # without hugepages
    hugepages_mib: dict[str, dict[int, int]] = field(default_factory=dict)
    devices: dict[str, list[str]] = field(default_factory=dict)

    @property
    def dense(self) -> bool:
        return self.ids == list(range(len(self.ids)))

    @property
    def cpu_nodes(self) -> list[int]:
        return sorted(self.cpus)

    @property
    def memory_nodes(self) -> list[int]:
        return sorted(node for node, amount in self.memory_mib.items() if amount)


def make_machine(rng: random.Random, *, uncore_caches: bool) -> Machine:
    number = rng.choices(range(1, 9), [1, 6, 3, 6, 2, 2, 1, 2])[0]
    sparse = rng.random() < 0.15
    machine = Machine(sorted(rng.sample(range(12), number)) if sparse else list(range(number)))
    _add_cpus(rng, machine)
    topology = _cpu_topology(rng, machine, uncore_caches=uncore_caches)
    _add_memory(rng, machine)
    machine.spec = {"numaNodes": [_numa_node(machine, node) for node in machine.ids]}
    if topology:
        machine.spec["cpuTopology"] = topology
    if rng.random() < 0.4:
        machine.spec["distances"] = _distances(rng, number)
    if devices := _devices(rng, machine):
        machine.spec["devices"] = devices
    return machine


def make_even_machine(rng: random.Random) -> Machine:
    """Return a machine of 2, 4 or 8 equal NUMA nodes with devices on all of them."""
    number = rng.choices([2, 4, 8], [3, 5, 2])[0]
    machine = Machine(list(range(number)))
    machine.threads = rng.choice([1, 2])
    _number_cpus(rng, machine, dict.fromkeys(machine.ids, rng.randint(3, 6)))
    memory_mib = rng.choice([2048, 4096, 8192])
    machine.memory_mib = dict.fromkeys(machine.ids, memory_mib)
    topology = _cpu_topology(rng, machine, uncore_caches=False)
    machine.spec = {"numaNodes": [_numa_node(machine, node) for node in machine.ids]}
    if topology:
        machine.spec["cpuTopology"] = topology
    entries: list[Scenario] = []
    for resource in RESOURCES[: rng.choice([1, 1, 2, 2, 3])]:
        each = rng.choice([1, 2, 3, 4, 8])
        for node in machine.ids:
            _add_devices(entries, machine, resource, node, each)
    machine.spec["devices"] = entries
    return machine


def _add_cpus(rng: random.Random, machine: Machine) -> None:
    """Number the CPUs as firmware does: siblings side by side or a half apart, nodes in turn or not."""
    machine.threads = rng.choices([1, 2, 4], [4, 6, 1])[0]
    usual = rng.randint(2, 6)
    odd = rng.random() < 0.2
    cores_of = {node: rng.randint(1, 6) if odd else usual for node in machine.ids}
    if len(machine.ids) > 1 and rng.random() < 0.15:
        for node in rng.sample(machine.ids, rng.randint(1, max(1, len(machine.ids) // 2))):
            cores_of[node] = 0
    _number_cpus(rng, machine, cores_of)


def _number_cpus(rng: random.Random, machine: Machine, cores_of: dict[int, int]) -> None:
    owners = [node for node, number in cores_of.items() for _ in range(number)]
    if rng.random() < 0.2:
        rounds = range(max(cores_of.values()))
        owners = [node for turn in rounds for node in machine.ids if turn < cores_of[node]]
    side_by_side = rng.random() < 0.4
    for index, node in enumerate(owners):
        if side_by_side:
            core = [index * machine.threads + thread for thread in range(machine.threads)]
        else:
            core = [index + thread * len(owners) for thread in range(machine.threads)]
        machine.cores.append(core)
        machine.cpus.setdefault(node, []).extend(core)


def _cpu_topology(rng: random.Random, machine: Machine, *, uncore_caches: bool) -> Scenario:
    machine.sockets = len(machine.cpus)
    topology: Scenario = {}
    if machine.threads > 1:
        topology["cores"] = [_text(core) for core in machine.cores]
    draw = rng.random()
    groups: list[list[int]] = []
    if draw < 0.35:  # several NUMA nodes on a socket
        share = rng.choice([2, 2, 4])
        nodes = machine.cpu_nodes
        groups = [
            [cpu for node in nodes[at : at + share] for cpu in machine.cpus[node]]
            for at in range(0, len(nodes), share)
        ]
    elif draw < 0.45:  # several sockets on a NUMA node
        for node in machine.cpu_nodes:
            cores = [core for core in machine.cores if core[0] in machine.cpus[node]]
            half = (len(cores) + 1) // 2
            groups += [
                [cpu for core in part for cpu in core] for part in (cores[:half], cores[half:]) if part
            ]
    if groups:
        machine.sockets = len(groups)
        topology["sockets"] = {str(index): _text(sorted(cpus)) for index, cpus in enumerate(groups)}
    if uncore_caches and rng.random() < 0.5:
        topology["uncoreCaches"] = _uncore_caches(rng, machine)
    return topology


def _uncore_caches(rng: random.Random, machine: Machine) -> dict[str, str]:
    size = rng.randint(1, 3)
    caches: list[list[int]] = []
    for node in machine.cpu_nodes:
        cores = [core for core in machine.cores if core[0] in machine.cpus[node]]
        caches += [
            sorted(cpu for core in cores[at : at + size] for cpu in core) for at in range(0, len(cores), size)
        ]
    return {str(index): _text(cpus) for index, cpus in enumerate(caches)}


def _add_memory(rng: random.Random, machine: Machine) -> None:
    usual = rng.choice([2048, 4096, 8192])
    even = rng.random() < 0.6
    for node in machine.ids:
        machine.memory_mib[node] = usual if even else rng.choice([1024, 2048, 3072, 8192])
    if len(machine.ids) > 1 and rng.random() < 0.12:
        machine.memory_mib[rng.choice(machine.ids)] = 0
    for size in HUGEPAGES:
        if rng.random() < 0.25:
            machine.hugepages_mib[size] = {
                node: rng.choice([0, 1024, 2048, 4096]) for node in machine.memory_nodes
            }


def _numa_node(machine: Machine, node: int) -> Scenario:
    hugepages = {size: amounts.get(node, 0) for size, amounts in machine.hugepages_mib.items()}
    result: Scenario = {
        "id": node,
        "cpus": _text(sorted(machine.cpus.get(node, []))),
        "memory": f"{machine.memory_mib[node] + sum(hugepages.values())}Mi",
    }
    return result | {size: f"{amount}Mi" for size, amount in hugepages.items() if amount}


def _distances(rng: random.Random, number: int) -> list[list[int]]:
    values = [11, 12, 16, 20, 21, 28, 32]
    matrix = [[10] * number for _ in range(number)]
    for a in range(number):
        for b in range(a):
            matrix[a][b] = matrix[b][a] = rng.choice(values)
    return matrix


def _devices(rng: random.Random, machine: Machine) -> list[Scenario]:
    entries: list[Scenario] = []
    for resource in RESOURCES[: rng.choice([0, 1, 1, 2, 2, 3])]:
        without_topology = 1.0 if resource.endswith("any") else 0.1
        for node in machine.ids:
            number = rng.choice([0, 1, 2, 2, 4])
            if number:
                _add_devices(entries, machine, resource, _place(rng, machine, node, without_topology), number)
    return entries


def _place(
    rng: random.Random, machine: Machine, node: int, without_topology: float
) -> int | list[int] | None:
    if rng.random() < without_topology:
        return None
    if len(machine.ids) > 1 and rng.random() < 0.1:
        return sorted([node, rng.choice([other for other in machine.ids if other != node])])
    return node


def _add_devices(
    entries: list[Scenario], machine: Machine, resource: str, numa: int | list[int] | None, number: int
) -> None:
    taken = machine.devices.setdefault(resource, [])
    ids = [f"{resource[-3:].strip('/')}-{len(taken) + index}" for index in range(number)]
    taken.extend(ids)
    entries.append({"resource": resource, "numa": numa, "ids": ids})


def _text(cpus: list[int]) -> str:
    return ",".join(map(str, cpus))
