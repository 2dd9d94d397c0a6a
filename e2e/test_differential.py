"""numaplace predicts what the kubelet's own managers do: generated scenarios, compared exactly.

``NUMAPLACE_E2E_SCENARIOS`` sets how many (default 5,000), ``NUMAPLACE_E2E_FIRST_SEED`` where to begin.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import yaml
from harness.conformance import ConformanceProcess
from harness.differential import (
    Tally,
    compare_seeds,
    conformance_program,
    disagreements,
    public_cases,
    simulated,
)

SCENARIOS = int(os.environ.get("NUMAPLACE_E2E_SCENARIOS", "5000"))
FIRST_SEED = int(os.environ.get("NUMAPLACE_E2E_FIRST_SEED", "0"))
CASES = yaml.safe_load((Path(__file__).parent / "cases" / "differential.yaml").read_text())
PUBLIC = public_cases(Path(__file__).parent.parent / "tests" / "cases" / "scenarios")


@pytest.fixture(scope="module")
def program() -> Path:
    return conformance_program()


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES])
def test_kept_scenarios(case: dict[str, Any], program: Path) -> None:
    with ConformanceProcess(program) as process:
        kubelet = process.run(case["scenario"], preference=case["preference"])
        assert disagreements(kubelet, simulated(case["scenario"], preference=case["preference"])) == []


@pytest.mark.parametrize("name", PUBLIC)
def test_public_cases(name: str, program: Path) -> None:
    with ConformanceProcess(program) as process:
        kubelet = process.run(PUBLIC[name], preference="lowest")
        assert disagreements(kubelet, simulated(PUBLIC[name], preference="lowest")) == []


@pytest.mark.timeout(60 + SCENARIOS)
def test_generated_scenarios_agree(program: Path) -> None:
    workers = os.cpu_count() or 1
    parts = [range(FIRST_SEED + part, FIRST_SEED + SCENARIOS, workers) for part in range(workers)]
    total = Tally()
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for tally in pool.map(compare_seeds, [program] * workers, parts):
            total.add(tally)
    print(f"seeds {FIRST_SEED} to {FIRST_SEED + SCENARIOS - 1}: {total}")
    assert total.failures == [], "\n\n".join(total.failures)
