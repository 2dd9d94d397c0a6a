"""The kubelet's own managers give the outcomes that are known of them, and run every generated scenario."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from harness.conformance import ConformanceProcess, Outcome, Scenario, differences
from harness.generate import generate_scenario
from harness.shrink import shrink

HERE = Path(__file__).parent
CASES = yaml.safe_load((HERE / "cases" / "conformance.yaml").read_text())
GENERATED = range(300)
MODULES = ("kubelet", "conformance")


@pytest.fixture(scope="module")
def kubelet() -> Iterator[ConformanceProcess]:
    program = (
        os.environ.get("NUMAPLACE_E2E_CONFORMANCE")
        or subprocess.run(
            [HERE / "conformance" / "build.sh"], check=True, capture_output=True, text=True
        ).stdout.strip()
    )
    with ConformanceProcess(Path(program)) as process:
        yield process


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES])
def test_known_outcome(case: dict[str, Any], kubelet: ConformanceProcess) -> None:
    outcome = kubelet.run(case["scenario"])
    assert case.get("error", "") in outcome.get("error", "")
    assert bool(case.get("error")) == bool(outcome.get("error")), outcome
    steps = {step["step"]: step for step in outcome["steps"]}
    for number, expected in case.get("expect", {}).items():
        _assert_states(steps[number], expected)


def _assert_states(step: Outcome, expected: Outcome) -> None:
    containers = {container["name"]: container for container in step["containers"]}
    actual = {key: containers if key == "containers" else step[key] for key in expected}
    assert _only(actual, expected) == expected


def _only(actual: Any, expected: Any) -> Any:
    """Return the part of ``actual`` that ``expected`` speaks of."""
    if isinstance(actual, dict) and isinstance(expected, dict):
        return {key: _only(value, expected[key]) for key, value in actual.items() if key in expected}
    return actual


def test_generated_scenarios_are_the_same_each_time_and_accepted(kubelet: ConformanceProcess) -> None:
    for seed in GENERATED:
        scenario = generate_scenario(seed)
        assert scenario == generate_scenario(seed), f"seed {seed}"
        outcome = kubelet.run(scenario)
        assert "error" not in outcome, f"seed {seed}: {outcome['error']}"
        assert differences(outcome, outcome) == [], f"seed {seed}"


def test_a_run_repeats_itself_where_it_is_determined(kubelet: ConformanceProcess) -> None:
    for seed in GENERATED[:100]:
        scenario = generate_scenario(seed)
        assert differences(kubelet.run(scenario), kubelet.run(scenario)) == [], f"seed {seed}"


def _gpus(number: int, policy: str = "best-effort") -> Scenario:
    """A node with this many GPUs on each of two NUMA nodes, and a pod that takes two of them."""
    return {
        "node": {
            "numaNodes": [
                {"id": 0, "cpus": "0-3", "memory": "4Gi"},
                {"id": 1, "cpus": "4-7", "memory": "4Gi"},
            ],
            "devices": [{"resource": "example.com/gpu", "numa": numa, "count": number} for numa in (0, 1)],
        },
        "kubelet": {"topologyManagerPolicy": policy},
        "steps": [{"create": {"name": "a", "containers": [{"name": "c", "example.com/gpu": 2}]}}],
    }


@pytest.mark.parametrize(
    ("number", "policy", "determined"),
    [
        pytest.param(2, "best-effort", None, id="all-that-are-aligned"),
        pytest.param(4, "best-effort", "numa", id="two-of-four-on-one-node"),
        pytest.param(1, "none", None, id="the-only-two"),
        pytest.param(4, "none", "number", id="two-of-eight-on-two-nodes"),
    ],
)
def test_what_a_plugin_without_preference_leaves_to_chance(
    number: int, policy: str, determined: str | None, kubelet: ConformanceProcess
) -> None:
    outcome = kubelet.run(_gpus(number, policy), preference="none")
    devices = outcome["steps"][0]["containers"][0]["devices"]["example.com/gpu"]
    assert devices.get("determined") == determined
    assert len(devices["ids"]) == 2


def test_reuse_is_run_again_until_it_takes_the_lowest(kubelet: ConformanceProcess) -> None:
    scenario = _gpus(4)
    pod = scenario["steps"][0]["create"]
    pod["initContainers"] = [{"name": "i", "example.com/gpu": 4}]
    pod["containers"] = [{"name": "c", "example.com/gpu": 1}]
    seen = set()
    for _ in range(40):
        outcome = kubelet.run(scenario)
        assert outcome["steps"][0]["containers"][1]["devices"]["example.com/gpu"]["ids"] == ["gpu-0-0"]
        once = kubelet.run(scenario, tries=1)["steps"][0]["containers"][1]["devices"]["example.com/gpu"]
        assert once.get("determined") == (None if once["ids"] == ["gpu-0-0"] else "numa")
        seen.update(once["ids"])
    assert len(seen) > 1


def test_what_a_stock_kubelet_does_not_do_is_refused(kubelet: ConformanceProcess) -> None:
    for change in (
        {"placement": {"enforcement": "kubelet"}},
        {"allocated": [{"numa": 0, "cpu": 1}]},
        {"unknown": 1},
    ):
        assert kubelet.run(_gpus(1) | change)["error"]
    assert "error" not in kubelet.run(_gpus(1) | {"placement": {"enforcement": False}})


def test_shrinking_keeps_what_makes_a_scenario_fail(kubelet: ConformanceProcess) -> None:
    def refuses_for_smt(scenario: Scenario) -> bool:
        outcome = kubelet.run(scenario)
        return "error" not in outcome and any(s["reason"] == "SMTAlignmentError" for s in outcome["steps"])

    found = next(one for one in map(generate_scenario, range(200)) if refuses_for_smt(one))
    small = shrink(found, refuses_for_smt)
    assert refuses_for_smt(small)
    assert len(small["steps"]) == 1
    assert "devices" not in small["node"]
    assert small["kubelet"]["cpuManagerPolicyOptions"] == {"full-pcpus-only": "true"}


def test_managers_and_kubelet_are_of_one_version() -> None:
    pinned = [
        re.search(r"k8s\.io/kubernetes (v\S+)", (HERE / module / "go.mod").read_text()) for module in MODULES
    ]
    assert len({found[1] for found in pinned if found}) == 1
