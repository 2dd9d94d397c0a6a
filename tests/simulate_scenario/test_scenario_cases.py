"""Public reports and the KEP's worked examples as scenarios, with their outcomes."""

from __future__ import annotations

import pytest
from numaplace.simulate.simulator.document import run_document
from numaplace.simulate.simulator.run import simulate
from scenario_cases import parse, stated, variants


@pytest.mark.parametrize(("document", "expect"), list(variants()))
def test_case(document, expect):
    run = run_document(simulate(parse(document)))
    steps = {step["pod"]: step for step in run["steps"] if "pod" in step}
    node = document["node"]
    assert {pod: stated(steps[pod], expected, node=node) for pod, expected in expect.items()} == expect
