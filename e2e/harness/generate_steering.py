"""Cases for steering made from a seed: a partly full node, the requests that may arrive, what is wanted."""

from __future__ import annotations

import random
from dataclasses import dataclass

from numaplace.engine.weights import weights_from_mapping
from numaplace.model.names import CPU, MEMORY, ResourceName, Strategy
from numaplace.prediction.request import Request, is_compute
from numaplace.steering.choose import SteeringSettings

from harness.generate import Scenario, make_kubelet
from harness.generate_node import Machine, make_even_machine, make_machine
from harness.generate_pods import MAX_HINTED, PodMaker

_POLICIES = {"best-effort": 1, "restricted": 2, "single-numa-node": 2}
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class SteeringCase:
    """``scenario`` ends in the state that is decided on. ``requests`` is empty if none is known.

    ``tried`` are the requests whose outcomes are compared; ``steerable`` the resources whose topology is
    ours.
    """

    scenario: Scenario
    requests: tuple[Request, ...]
    tried: tuple[Request, ...]
    settings: SteeringSettings
    steerable: frozenset[ResourceName]


def steering_case(seed: int) -> SteeringCase:
    """Return the case of a seed, the same on every machine. Two of three have equal NUMA nodes."""
    rng = random.Random(seed)
    machine = make_even_machine(rng) if seed % 3 else _odd_machine(rng)
    kubelet = make_kubelet(rng, machine, policies=_POLICIES)
    requests = _RequestMaker(rng, machine, kubelet)
    known = [requests.make() for _ in range(rng.choice([1, 1, 1, 2, 3, 5]))]
    declared = rng.random() < 0.75
    names = [ResourceName(name) for name in machine.devices]
    scenario: Scenario = {
        "node": machine.spec,
        "kubelet": kubelet,
        "placement": {"enforcement": "off"},
        "steps": _fill(rng, machine, kubelet, known=known),
    }
    return SteeringCase(
        scenario,
        requests=tuple(dict.fromkeys(known)) if declared else (),
        tried=tuple(dict.fromkeys(known if declared else [*known, *(requests.make() for _ in range(6))])),
        settings=SteeringSettings(
            strategy=rng.choice(
                [Strategy.LEAST_ALLOCATED, Strategy.LEAST_ALLOCATED, Strategy.MOST_ALLOCATED]
            ),
            weights=weights_from_mapping(
                rng.choice([{}, {CPU: 0, MEMORY: 0}, {names[0]: 10}, {CPU: 3, names[0]: 6}])
            ),
            always=rng.random() < 0.8,
        ),
        steerable=frozenset(names if rng.random() < 0.8 else rng.sample(names, rng.randint(1, len(names)))),
    )


def _odd_machine(rng: random.Random) -> Machine:
    while True:
        machine = make_machine(rng, uncore_caches=False)
        if machine.devices and len(machine.ids) > 1:
            return machine


class _RequestMaker:
    def __init__(self, rng: random.Random, machine: Machine, kubelet: Scenario) -> None:
        self._rng = rng
        self._names = list(machine.devices)
        self._threads = machine.threads
        self._most_cpus = max(1, max(len(cpus) for cpus in machine.cpus.values()) // 2)
        self._memory_mib = max(256, max(machine.memory_mib.values()))
        single = kubelet["topologyManagerPolicy"] == "single-numa-node"
        static = (kubelet["cpuManagerPolicy"] == "static") + (kubelet["memoryManagerPolicy"] == "Static")
        self._hinted = 6 if single else MAX_HINTED[len(machine.ids)]
        self._compute = self._hinted - static >= 1
        self._static = static

    def make(self) -> Request:
        """Return a request of one to two containers, with CPUs and memory in two of three."""
        placed = self._compute and self._rng.random() < 0.67
        return Request.of(*(self._container(placed=placed) for _ in range(self._rng.choice([1, 1, 1, 2]))))

    def _container(self, *, placed: bool) -> dict[ResourceName, int]:
        rng = self._rng
        room = self._hinted - (self._static if placed else 0)
        number = min(room, len(self._names), rng.choice([1, 1, 2]))
        amounts = {
            ResourceName(name): rng.choice([1, 1, 1, 2, 4]) for name in rng.sample(self._names, number)
        }
        if placed:
            size = rng.randint(1, self._most_cpus)
            whole = size // self._threads * self._threads if rng.random() < 0.8 else size
            amounts[CPU] = rng.choice([max(self._threads, whole), max(self._threads, whole), 0])
            amounts[MEMORY] = rng.choice([1, 1, 2, 4]) * self._memory_mib // 8 * _MIB
        return amounts


def _fill(rng: random.Random, machine: Machine, kubelet: Scenario, *, known: list[Request]) -> list[Scenario]:
    single = kubelet["topologyManagerPolicy"] == "single-numa-node"
    others = PodMaker(rng, machine, single_numa=single)
    steps: list[Scenario] = []
    alive: list[str] = []
    for number in range(rng.randint(len(machine.ids) // 2, 3 * len(machine.ids))):
        draw = rng.random()
        if alive and draw < 0.15:
            steps.append({"delete": alive.pop(rng.randrange(len(alive)))})
        elif draw < 0.18:
            resource = rng.choice(sorted(machine.devices))
            ids = rng.sample(machine.devices[resource], 1)
            steps.append({"unhealthy": {"resource": resource, "ids": ids}})
        else:
            name = f"p{number}"
            pod = pod_of(rng.choice(known), name) if draw < 0.75 else others.make(name)
            steps.append({"create": pod})
            alive.append(name)
    return steps


def pod_of(request: Request, name: str) -> Scenario:
    """Return a scenario's pod of a request; Guaranteed if it names any CPU or memory (``Request.pod``)."""
    placed = any(is_compute(resource) for amounts in request.containers for resource, _ in amounts)
    containers = []
    for number, amounts in enumerate(request.containers):
        container: Scenario = {"name": f"c{number}", **dict(amounts)}
        if placed:
            container.setdefault("cpu", "1m")
            container.setdefault("memory", 1)
        containers.append(container)
    return {"name": name, "containers": containers}
