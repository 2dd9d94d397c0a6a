"""Whatever steering withholds, the kubelet's own managers do as well by every request: generated cases.

``NUMAPLACE_E2E_STEERING_CASES`` sets how many (default 1,000), ``NUMAPLACE_E2E_FIRST_SEED`` where to begin.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from harness.conformance import ConformanceProcess, Scenario
from harness.differential import conformance_program
from harness.never_worse import SteeringTally, try_seeds

CASES = int(os.environ.get("NUMAPLACE_E2E_STEERING_CASES", "1000"))
FIRST_SEED = int(os.environ.get("NUMAPLACE_E2E_FIRST_SEED", "0"))


@pytest.fixture(scope="module")
def program() -> Path:
    return conformance_program()


def _two_gpus_on_each_node(steps: list[Scenario]) -> Scenario:
    return {
        "node": {
            "numaNodes": [{"id": node, "cpus": f"{4 * node}-{4 * node + 3}"} for node in (0, 1)],
            "devices": [{"resource": "example.com/gpu", "numa": node, "count": 2} for node in (0, 1)],
        },
        "kubelet": {
            "topologyManagerPolicy": "single-numa-node",
            "cpuManagerPolicy": "static",
            "reservedSystemCPUs": "0",
        },
        "steps": steps,
    }


def test_the_managers_follow_shown_topology_to_the_other_node(program: Path) -> None:
    pod = {"containers": [{"name": "c", "cpu": 1, "memory": "1Mi", "example.com/gpu": 1}]}
    steps: list[Scenario] = [
        {"withhold": {"resource": "example.com/gpu", "ids": ["gpu-0-0", "gpu-0-1"]}},
        {"create": {"name": "a", **pod}},
        {"withhold": {"resource": "example.com/gpu", "ids": []}},
        {"create": {"name": "b", **pod}},
    ]
    with ConformanceProcess(program) as process:
        outcome = process.run(_two_gpus_on_each_node(steps))
    places = [one["containers"][0]["affinity"] for one in outcome["steps"]]
    cpus = [one["containers"][0]["cpus"] for one in outcome["steps"]]
    assert (places, cpus) == ([[1], [0]], ["4", "1"])


@pytest.mark.timeout(60 + CASES)
def test_no_request_comes_off_worse(program: Path) -> None:
    workers = os.cpu_count() or 1
    parts = [range(FIRST_SEED + part, FIRST_SEED + CASES, workers) for part in range(workers)]
    total = SteeringTally()
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for tally in pool.map(try_seeds, [program] * workers, parts):
            total.add(tally)
    print(f"seeds {FIRST_SEED} to {FIRST_SEED + CASES - 1}: {total}")
    assert total.failures == [], "\n\n".join(total.failures)
    assert total.steered * 10 >= CASES, "cases in which topology was withheld"
