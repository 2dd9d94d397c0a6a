"""Records what the kubelet's own managers do with some scenarios, for the fast tests.

    cd e2e && ../.venv/bin/python -m harness.record

Rewrites tests/cases/scenarios/recorded.json. Only scenarios whose outcome is determined are kept.
"""

from __future__ import annotations

import json
from pathlib import Path

from harness.conformance import ConformanceProcess, Outcome, normalise
from harness.differential import conformance_program, disagreements
from harness.generate import generate_scenario

FILE = Path(__file__).parents[2] / "tests/cases/scenarios/recorded.json"
WANTED = 60
_FIRST_SEED = 1_000_000
_MOST_CHARACTERS = 6000


def record() -> None:
    """Write the file."""
    kept = []
    seed = _FIRST_SEED
    with ConformanceProcess(conformance_program()) as process:
        while len(kept) < WANTED:
            scenario = normalise(generate_scenario(seed, uncore_caches=seed % 2 == 1))
            outcome = process.run(scenario)
            if _is_determined(outcome) and not disagreements(outcome, process.run(scenario)):
                steps = [{key: step[key] for key in step if key != "message"} for step in outcome["steps"]]
                row = {"seed": seed, "scenario": scenario, "steps": steps}
                if len(json.dumps(row)) <= _MOST_CHARACTERS and len(steps) > 2:
                    kept.append(row)
            seed += 1
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in kept)
    FILE.write_text(f"[\n{lines}\n]\n")


def _is_determined(outcome: Outcome) -> bool:
    return "error" not in outcome and not any(
        "determined" in held
        for step in outcome["steps"]
        for container in step["containers"]
        for held in container["devices"].values()
    )


if __name__ == "__main__":
    record()
