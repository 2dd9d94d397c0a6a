"""Many pods under steering: none is refused, or less aligned, that the same kubelet by itself takes care of.

Each test hands the same pods in the same order to the same kubelet twice: with plugins that only list the
devices, and with a daemon that steers. ``NUMAPLACE_E2E_STEERING_SOAK=1`` runs both tests on all nodes, with
200 pods at once instead of 100, and 1,000 creates and deletes instead of 240; the run's end has the numbers.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from harness.backend import Tools
from harness.equipped import EquippedNode, equipped_node
from harness.hardware import AMD, NVIDIA, VF, install
from harness.kubelet import KubeletOptions
from harness.landing import Landing, land, landings, per_node, refused_only, settle, vanish
from harness.logs import LogKeeper
from harness.pods import Pod, unique
from harness.report import Report
from harness.steering import count, outcomes, wait_decided

SOAK = os.environ.get("NUMAPLACE_E2E_STEERING_SOAK") == "1"
OPERATIONS = 1000 if SOAK else 240
BURST = 200 if SOAK else 100
EACH_ROUND = 20
ALIVE = 60

Limits = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Setup:
    """A kubelet: 256 CPUs, 512 GiB and 256 VFs over its NUMA nodes.

    ``declared``: steering is told the requests; else it has to be right for any. Without ``memory`` there is
    no memory manager: with three resources on 8 NUMA nodes, a kubelet that may take several nodes tries 16
    million combinations for each pod.
    """

    numa_nodes: int
    policy: str
    scope: str
    memory: bool
    declared: bool


SETUPS = {
    "4-single-numa-node": Setup(4, "single-numa-node", "container", memory=True, declared=True),
    "8-restricted-pod": Setup(8, "restricted", "pod", memory=False, declared=True),
    "4-best-effort": Setup(4, "best-effort", "container", memory=True, declared=True),
    "8-single-numa-node-pod": Setup(8, "single-numa-node", "pod", memory=True, declared=True),
}
BURSTS = list(SETUPS) if SOAK else ["4-single-numa-node", "8-restricted-pod"]
CHURNS = list(SETUPS) if SOAK else ["4-best-effort", "8-single-numa-node-pod"]

ONE: Limits = {VF: 1, "cpu": 1, "memory": "1Gi"}
TWO_RESOURCES: Limits = {VF: 1, AMD: 1, "cpu": 3, "memory": "2Gi"}
MIXED: Sequence[Limits] = (
    ONE,
    {VF: 2, "cpu": 4, "memory": "2Gi"},
    {VF: 4, "cpu": 2, "memory": "4Gi"},
    {VF: 1, "cpu": "500m", "memory": "1Gi"},
    {VF: 2},
    {NVIDIA: 1, "cpu": 2, "memory": "1Gi"},
    TWO_RESOURCES,
    {"cpu": 3, "memory": "2Gi"},
)
WEIGHTS = (8, 4, 3, 3, 2, 1, 1, 4)


@pytest.fixture(scope="module")
def setup(request: pytest.FixtureRequest) -> Setup:
    return SETUPS[request.param]


@pytest.fixture(scope="module")
def site(setup: Setup, tools: Tools, scratch: Path, logs: LogKeeper) -> Iterator[EquippedNode]:
    options = KubeletOptions(
        topology_manager_policy=setup.policy,
        topology_manager_scope=setup.scope,
        static_cpu_manager=True,
        static_memory_manager=setup.memory,
    )
    number = setup.numa_nodes
    with equipped_node(
        tools,
        scratch,
        numa_nodes=number,
        options=options,
        logs=logs,
        cpus_each=256 // number,
        memory_gib_each=512 // number,
        equip=partial(install, vfs_per_port=128 // number),
    ) as site:
        yield site


def steering(setup: Setup, requests: Sequence[Limits]) -> dict[str, Any]:
    """Return the daemon's settings. A fraction of a CPU is none that is exclusive: it is not declared.

    With several sizes, or unknown ones, it acts only if told so.
    """
    whole = [{name: one for name, one in limits.items() if one != "500m"} for limits in requests]
    mode = "auto" if setup.declared and len(requests) == 1 else "always"
    return {"mode": mode, "requests": whole if setup.declared else []}


def assert_no_worse(found: Sequence[Landing], stock: Sequence[Landing]) -> None:
    assert refused_only(found, stock) == []
    pairs = enumerate(zip(found, stock, strict=True))
    split = [number for number, (one, other) in pairs if other.aligned and not one.aligned]
    assert split == []


def imbalance(site: EquippedNode, found: Sequence[Landing]) -> int:
    """By how many pods the fullest NUMA node exceeds the emptiest."""
    counts = per_node(found)
    each = [counts.get((node,), 0) for node in site.node.topology.node_ids]
    return max(each) - min(each)


@dataclass(frozen=True, slots=True)
class Run:
    """What became of the pods, and what the daemon says of it; ``trips`` of the circuit breaker."""

    found: Sequence[Landing]
    seconds: float
    told: str = ""
    trips: float = 0.0

    def __str__(self) -> str:
        places = dict(sorted(per_node(self.found).items()))
        return f"{self.seconds:.0f} s, pods per NUMA node {places}{self.told}"


def alone(site: EquippedNode, pods: Callable[[], list[Landing]]) -> Run:
    """Run the pods with plugins that only list the devices."""
    with site.alone():
        started = time.monotonic()
        return Run(pods(), time.monotonic() - started)


def steered(site: EquippedNode, pods: Callable[[], list[Landing]], **settings: Any) -> Run:
    """Run the pods with a daemon that steers, least allocated first."""
    with site.daemon("least-allocated", **settings) as daemon:
        wait_decided(daemon)
        started = time.monotonic()
        found = pods()
        seconds = time.monotonic() - started
        decisions = count(daemon, "steering_prediction_duration_seconds_count")
        spent = count(daemon, "steering_prediction_duration_seconds_sum")
        told = f"; {outcomes(daemon)}, {1000 * spent / max(decisions, 1):.1f} ms a decision"
        return Run(found, seconds, told, count(daemon, "steering_breaker_trips_total"))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("setup", BURSTS, indirect=True)
def test_burst(site: EquippedNode, setup: Setup, report: Report) -> None:
    def pods() -> list[Landing]:
        return land(site, [Pod.of(unique("burst"), ONE) for _ in range(BURST)])

    stock = alone(site, pods)
    run = steered(site, pods, steering=steering(setup, [ONE]))
    report.lines += [f"burst of {BURST} pods on {setup}", f"    alone: {stock}", f"    steered: {run}"]
    assert_no_worse(run.found, stock.found)
    assert all(one.admitted and one.aligned for one in run.found)
    assert imbalance(site, run.found) <= 4 < imbalance(site, stock.found)
    assert run.trips == 0


@dataclass(frozen=True, slots=True)
class Round:
    """What happens at once: pods come (by their limits), and earlier ones go (by their numbers)."""

    creates: Sequence[Limits]
    deletes: Sequence[int]


def rounds_of(operations: int, setup: Setup, *, seed: int) -> list[Round]:
    rng = random.Random(seed)
    alive: list[int] = []
    created = left = 0
    rounds = []
    left = operations
    while left > 0:
        number = min(left, EACH_ROUND)
        surplus = max(0, len(alive) + number - ALIVE)
        going = min(len(alive), number // 2 if surplus > 0 else number // 5)
        deletes = [alive.pop(rng.randrange(len(alive))) for _ in range(going)]
        creates = rng.choices(MIXED, WEIGHTS, k=number - going)
        if not setup.memory:
            creates = [ONE if limits is TWO_RESOURCES else limits for limits in creates]
        alive += range(created, created + len(creates))
        created += len(creates)
        left -= number
        rounds.append(Round(creates, deletes))
    return rounds


def play(site: EquippedNode, rounds: Sequence[Round]) -> list[Landing]:
    """Play the rounds; return what became of every pod."""
    pods: list[Pod] = []
    found: list[Landing] = []
    for one in rounds:
        new = [Pod.of(unique("churn"), limits) for limits in one.creates]
        going = [pods[number] for number in one.deletes]
        for pod in going:
            site.node.delete(pod.name)
        for pod in new:
            site.node.create(pod)
        settle(site, new)
        found += landings(site, new)
        vanish(site, going)
        pods += new
    return found


@pytest.mark.timeout(600 + 2 * OPERATIONS)
@pytest.mark.parametrize("setup", CHURNS, indirect=True)
def test_creates_and_deletes(site: EquippedNode, setup: Setup, report: Report) -> None:
    rounds = rounds_of(OPERATIONS, setup, seed=7)
    requests = [limits for limits in MIXED if VF in limits or NVIDIA in limits]

    def pods() -> list[Landing]:
        return play(site, rounds)

    stock = alone(site, pods)
    run = steered(site, pods, weights="cpu=0,memory=0", steering=steering(setup, requests))
    title = f"{OPERATIONS} creates and deletes on {setup}"
    report.lines += [title, f"    alone: {stock}", f"    steered: {run}"]
    assert_no_worse(run.found, stock.found)
    assert run.trips == 0
