"""Outcomes recorded from the kubelet's own managers, v1.37.2 (``python -m harness.record`` in e2e)."""

from __future__ import annotations

import json

import pytest
from numaplace.simulate.simulator.document import run_document
from numaplace.simulate.simulator.preferred import prefer_lowest
from numaplace.simulate.simulator.run import simulate
from scenario_cases import FOLDER, parse

RECORDED = json.loads((FOLDER / "recorded.json").read_text())


@pytest.mark.parametrize("row", [pytest.param(row, id=f"seed {row['seed']}") for row in RECORDED])
def test_the_kubelet_does_the_same(row):
    run = run_document(simulate(parse(row["scenario"]), answer=prefer_lowest))
    mine = [step for step in run["steps"] if "pod" in step]
    assert len(mine) == len(row["steps"])
    for step, kubelet in zip(mine, row["steps"], strict=True):
        assert {key: step[key] for key in ("step", "pod", "admitted", "reason")} == {
            key: kubelet[key] for key in ("step", "pod", "admitted", "reason")
        }
        if not kubelet["admitted"]:
            continue
        for one, theirs in zip(step["containers"], kubelet["containers"], strict=True):
            # Without an affinity, preferred says only whether the Topology Manager was asked.
            keys = theirs.keys() - ({"preferred"} if theirs["affinity"] is None else set())
            assert {key: one[key] for key in keys} == {key: theirs[key] for key in keys}
