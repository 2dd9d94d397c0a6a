from __future__ import annotations

from typing import Any

import pytest
from enginecases import Case, hint, hint_of, load, section, topology_of
from numaplace.engine.compare import Criteria, compare, criteria_for
from numaplace.engine.hint import Hint
from numaplace.engine.merge import ResourceHints, max_of_min_affinity_counts
from numaplace.engine.numa import average_distance
from numaplace.engine.options import PolicyOptions
from numaplace.engine.policy import single_node_hints
from numaplace.model.mask import mask_of
from numaplace.model.names import ResourceName, Strategy

TWO_PAIRS = topology_of([[10, 11, 12, 12], [11, 10, 12, 12], [12, 12, 10, 11], [12, 12, 11, 10]])
R = ResourceName("example.com/r")


@pytest.mark.parametrize("case", section("compare", "kubelet_compare.yaml"))
def test_compare_as_upstream(case: Case) -> None:
    verdict = compare(hint_of(case["current"]), hint(case["candidate"]), Criteria(case["best"]))
    assert ("candidate" if verdict.candidate_wins else "current") == case["winner"]


@pytest.mark.parametrize("case", [pytest.param(one, id=one["id"]) for one in load("compare_rules.yaml")])
def test_compare_names_the_rule(case: Case) -> None:
    criteria = criteria_for(
        TWO_PAIRS,
        "restricted",
        options=PolicyOptions(
            prefer_closest=case.get("closest", False), strategy=Strategy(case.get("strategy", "none"))
        ),
        best_non_preferred=case.get("best", 0),
    )
    verdict = compare(hint_of(case["current"]), hint(case["candidate"]), criteria)
    assert ("candidate" if verdict.candidate_wins else "current", verdict.rule) == (
        case["winner"],
        case["rule"],
    )


@pytest.mark.parametrize("case", section("closest", "kubelet_compare.yaml"))
def test_closest_as_upstream(case: Case) -> None:
    current, candidate = (Hint(mask_of(case[name]), preferred=True) for name in ("current", "candidate"))
    criteria = criteria_for(
        topology_of(case["distances"]),
        "restricted",
        options=PolicyOptions(prefer_closest=True),
        best_non_preferred=0,
    )
    verdict = compare(current, candidate, criteria)
    assert ("candidate" if verdict.candidate_wins else "current") == case["winner"]


@pytest.mark.parametrize("case", section("average_distance", "kubelet_compare.yaml"))
def test_average_distance_as_upstream(case: Case) -> None:
    assert average_distance(topology_of(case["distances"]), mask_of(case["numa"])) == case["expect"]


@pytest.mark.parametrize("case", section("max_of_min", "kubelet_compare.yaml"))
def test_max_of_min_affinity_counts_as_upstream(case: Case) -> None:
    filtered = [
        ResourceHints(R, tuple(Hint(mask_of(numa), preferred=True) for numa in masks))
        for masks in case["resources"]
    ]
    assert max_of_min_affinity_counts(filtered) == case["expect"]


@pytest.mark.parametrize("case", section("single_node_filter", "kubelet_compare.yaml"))
def test_single_node_filter_as_upstream(case: Case) -> None:
    assert single_node_hints(_resources(case["resources"])) == _resources(case["expect"])


def _resources(form: Any) -> tuple[ResourceHints, ...]:
    return tuple(ResourceHints(R, tuple(hint(one) for one in hints)) for hints in form)
