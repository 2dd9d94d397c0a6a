"""One scenario through the kubelet's own managers and through numaplace's: where do they disagree?"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from numaplace.errors import NumaplaceError
from numaplace.simulate.scenario.load import parse_scenario
from numaplace.simulate.simulator.document import run_document
from numaplace.simulate.simulator.preferred import prefer_lowest
from numaplace.simulate.simulator.run import simulate

from harness.conformance import ConformanceProcess, Outcome, Preference, Scenario, differences, normalise
from harness.generate import generate_scenario
from harness.shrink import shrink

_MOST_RERUNS = 40
BUILD = Path(__file__).parent.parent / "conformance" / "build.sh"


def conformance_program() -> Path:
    """Return the conformance program; build it if it is not there."""
    known = os.environ.get("NUMAPLACE_E2E_CONFORMANCE")
    if known:
        return Path(known)
    built = subprocess.run([BUILD], check=True, capture_output=True, text=True)
    return Path(built.stdout.strip())


def simulated(scenario: Mapping[str, Any], *, preference: Preference) -> Outcome:
    """Return numaplace's outcome, in the form of the conformance program's."""
    text = json.dumps(normalise(scenario))
    answer = prefer_lowest if preference == "lowest" else None
    try:
        return run_document(simulate(parse_scenario(text, source="scenario"), answer=answer))
    except NumaplaceError as error:
        return {"error": str(error), "steps": []}


def disagreements(kubelet: Outcome, numaplace: Outcome) -> list[str]:
    """Return where the outcomes differ. Messages are each program's own words: they are not compared."""
    return [one for one in differences(kubelet, numaplace) if ": message: " not in one]


def preference_of(seed: int) -> Preference:
    """Return how the seed's plugins answer: every fourth scenario has plugins without preference."""
    return "none" if seed % 4 == 0 else "lowest"


@dataclass(slots=True)
class Tally:
    """What was compared: scenarios, pods by the kubelet's reason, and seconds spent on each side.

    ``by_chance`` are scenarios in which the kubelet agrees in some of its runs only.
    """

    scenarios: int = 0
    by_chance: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    kubelet_seconds: float = 0.0
    numaplace_seconds: float = 0.0
    failures: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Add what another process has compared."""
        self.scenarios += other.scenarios
        self.by_chance += other.by_chance
        self.reasons.update(other.reasons)
        self.kubelet_seconds += other.kubelet_seconds
        self.numaplace_seconds += other.numaplace_seconds
        self.failures.extend(other.failures)

    def __str__(self) -> str:
        pods = ", ".join(f"{count} {reason or 'admitted'}" for reason, count in self.reasons.most_common())
        return (
            f"{self.scenarios} scenarios, {self.reasons.total()} pods ({pods}), {self.by_chance} scenarios "
            "in which the kubelet agrees in some of its runs only; the kubelet's managers took "
            f"{self.kubelet_seconds:.0f} s, numaplace's {self.numaplace_seconds:.0f} s"
        )


def compare_seeds(program: Path, seeds: range, *, most_failures: int = 3) -> Tally:
    """Compare the seeds' scenarios; each failure is one text with the shrunk scenario."""
    tally = Tally()
    with ConformanceProcess(program) as process:
        for seed in seeds:
            scenario = generate_scenario(seed, uncore_caches=seed % 2 == 1)
            _compare(process, seed, scenario, tally)
            if len(tally.failures) >= most_failures:
                break
    return tally


def _compare(process: ConformanceProcess, seed: int, scenario: Scenario, tally: Tally) -> None:
    preference = preference_of(seed)
    started = time.monotonic()
    kubelet = process.run(scenario, preference=preference)
    between = time.monotonic()
    mine = simulated(scenario, preference=preference)
    tally.kubelet_seconds += between - started
    tally.numaplace_seconds += time.monotonic() - between
    tally.scenarios += 1
    tally.reasons.update(step["reason"] for step in kubelet["steps"])
    found = disagreements(kubelet, mine)
    if found and _is_possible(process, scenario, mine, preference=preference):
        tally.by_chance += 1
    elif found:
        small = shrunk(process, scenario, preference=preference)
        tally.failures.append(f"seed {seed}, preference {preference}: {found[:3]}\n{json.dumps(small)}")


def _is_possible(
    process: ConformanceProcess, scenario: Scenario, mine: Outcome, *, preference: Preference
) -> bool:
    """Return whether the kubelet itself comes to numaplace's outcome in another run.

    A refused pod does not show what chance gave to its first containers, but what they left decides on the
    next ones. So a difference counts if the kubelet never does the same.
    """
    return any(
        not disagreements(process.run(scenario, preference=preference), mine) for _ in range(_MOST_RERUNS)
    )


def shrunk(process: ConformanceProcess, scenario: Scenario, *, preference: Preference) -> Scenario:
    """Return a smaller scenario on which the two still disagree."""

    def fails(candidate: Scenario) -> bool:
        kubelet = process.run(candidate, preference=preference)
        mine = simulated(candidate, preference=preference)
        if kubelet.get("error") or mine.get("error"):
            return False
        return bool(disagreements(kubelet, mine)) and not _is_possible(
            process, candidate, mine, preference=preference
        )

    return shrink(scenario, fails, limit=400) if fails(scenario) else scenario


def public_cases(folder: Path) -> dict[str, Scenario]:
    """Return the scenarios of case files (tests/cases/scenarios) that are about a stock kubelet, by name.

    Left out is what a kubelet cannot be told: a strategy, and anonymous initial allocations.
    """
    found: dict[str, Scenario] = {}
    for file in sorted(folder.glob("*.yaml")):
        case = yaml.safe_load(file.read_text())
        for number, variant in enumerate(case["variants"]):
            scenario = case["scenario"] | {
                key: variant[key] for key in ("placement", "steps") if key in variant
            }
            scenario["kubelet"] = case["scenario"].get("kubelet", {}) | variant.get("kubelet", {})
            if "placement" not in scenario and "allocated" not in scenario:
                found[f"{case['id']} {variant.get('id', number)}"] = scenario
    return found
