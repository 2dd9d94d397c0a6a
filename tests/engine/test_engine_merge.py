from __future__ import annotations

from typing import Any

import pytest
from enginecases import (
    Case,
    case_options,
    case_topology,
    flat_topology,
    load,
    numa_of,
    providers_of,
    section,
    topology_of,
)
from numaplace.engine.hint import Hint
from numaplace.engine.merge import merge_permutation
from numaplace.engine.options import PolicyName, PolicyOptions
from numaplace.engine.policy import POLICIES, PolicyResult, policy_for
from numaplace.engine.score import utilization_score
from numaplace.engine.select import select
from numaplace.engine.weights import Weights, parse_weights
from numaplace.errors import InputError
from numaplace.model.mask import masks_by_width, nodes_of
from numaplace.model.names import ResourceName, Strategy

FILES = ("kep6007_unit_tests.yaml", "merge_article.yaml", "public_issues.yaml")


def _kubelet_cases() -> list[Any]:
    data = load("kubelet_merge.yaml")
    return [
        pytest.param(
            {**case, **run, "distances": data["topologies"][run["topology"]]}, id=f"{run['id']}/{case['id']}"
        )
        for run in data["runs"]
        for name in run["sets"]
        for case in data["sets"][name]
    ]


@pytest.mark.parametrize("case", _kubelet_cases() + section("merge", *FILES))
def test_merge_gives_the_expected_hint(case: Case) -> None:
    topology = case_topology(case)
    result = POLICIES[case["policy"]].merge(providers_of(case["providers"]), topology, case_options(case))
    expect = dict(case["expect"])
    if expect["numa"] == "all":
        expect["numa"] = list(topology.nodes)
    assert {key: _shown(result, key) for key in expect} == expect
    if case["policy"] in (PolicyName.RESTRICTED, PolicyName.SINGLE_NUMA_NODE):
        assert result.admit == result.hint.preferred


@pytest.mark.parametrize("strategy", list(Strategy))
def test_merge_agrees_with_what_a_kubelet_made_of_the_same_hints(strategy: Strategy) -> None:
    # Unscored hints, so that every strategy must leave the kubelet's pick alone.
    recorded = load("kubelet_recorded.json")
    assert len(recorded) == 300
    for case in recorded:
        options = PolicyOptions(prefer_closest=case["closest"], strategy=strategy)
        result = POLICIES[case["policy"]].merge(
            providers_of(case["providers"]), topology_of(case["distances"]), options
        )
        assert {key: _shown(result, key) for key in case["expect"]} == case["expect"], case


def _shown(result: PolicyResult, key: str) -> object:
    selection = result.selection
    shown: dict[str, object] = {
        "numa": numa_of(result.hint.mask),
        "preferred": result.hint.preferred,
        "score": result.hint.score,
        "admit": result.admit,
        "rule": result.rule,
        "score_decided": result.score_decided,
        "structural": numa_of(selection.structural.mask) if selection else None,
        "candidates": [
            {"numa": numa_of(one.mask), "preferred": one.preferred, "score": one.score}
            for one in (selection.candidates if selection else ())
        ],
    }
    return shown[key]


def _kep_rows() -> list[Any]:
    return [
        pytest.param(example, row, id=f"{example['id']}: {row['strategy']}, {row['weights'] or 'unset'}")
        for example in load("kep6007.json")["examples"]
        for row in example["rows"]
    ]


@pytest.mark.parametrize("policy", ["best-effort", "restricted", "single-numa-node"])
@pytest.mark.parametrize(("example", "row"), _kep_rows())
def test_kep_worked_examples(example: Case, row: Case, policy: str) -> None:
    nodes = [int(node) for node in example["scores"]]
    resources = example["scores"]["0"]
    providers = [
        {
            ResourceName(resource): [
                Hint(1 << node, preferred=True, score=example["scores"][str(node)][resource])
                for node in nodes
            ]
        }
        for resource in resources
    ]
    options = PolicyOptions(strategy=Strategy(row["strategy"]), weights=parse_weights(row["weights"]))
    result = POLICIES[policy].merge(providers, flat_topology(len(nodes)), options)
    assert result.selection is not None
    aggregates = {
        str(*nodes_of(one.mask or 0)): one.score for one in result.selection.candidates if one.preferred
    }
    assert aggregates == row["aggregate"]
    assert numa_of(result.hint.mask) == [row["selected"]]
    assert result.admit
    assert result.rule == "score"
    assert result.score_decided == (row["selected"] != 0)


@pytest.mark.parametrize("example", [one for one in load("kep6007.json")["examples"] if "utilization" in one])
def test_kep_example_scores(example: Case) -> None:
    scores = {
        node: {resource: utilization_score(total, used) for resource, (used, total) in uses.items()}
        for node, uses in example["utilization"].items()
    }
    assert scores == example["scores"]


@pytest.mark.parametrize("case", section("sequence", "public_issues.yaml"))
def test_pods_one_after_another(case: Case) -> None:
    policy = POLICIES[case["policy"]]
    options = PolicyOptions(strategy=Strategy(case["strategy"]))
    used = [0] * len(case["nodes"])
    placed = []
    for request in case["requests"]:
        hints = _offers(case["nodes"], used, request)
        result = policy.merge([{ResourceName("example.com/unit"): hints}], flat_topology(len(used)), options)
        nodes = numa_of(result.hint.mask) if result.admit else None
        placed.append(nodes)
        if nodes:
            used[nodes[0]] += request
    assert placed == case["expect"]


def _offers(allocatable: list[int], used: list[int], request: int) -> list[Hint]:
    hints = []
    for mask in masks_by_width(range(len(allocatable))):
        total = sum(allocatable[node] for node in nodes_of(mask))
        taken = sum(used[node] for node in nodes_of(mask))
        if total - taken >= request:
            hints.append(Hint(mask, mask.bit_count() == 1, utilization_score(total, taken)))
    return hints


@pytest.mark.parametrize("case", section("start", "kubelet_options.yaml", "merge_article.yaml"))
def test_policy_is_checked_against_the_machine(case: Case) -> None:
    topology, options = flat_topology(case["nodes"]), case_options(case)
    if "refused" not in case:
        assert policy_for(case["policy"], topology=topology, options=options).name == case["policy"]
        return
    with pytest.raises(InputError) as caught:
        policy_for(case["policy"], topology=topology, options=options)
    assert all(word in str(caught.value) for word in case["refused"])


def test_every_policy_name_has_a_policy() -> None:
    assert list(POLICIES) == list(PolicyName)


def test_sparse_node_ids_are_masks_not_positions() -> None:
    topology = topology_of([])
    sparse = type(topology)(nodes=(0, 2, 5))
    result = POLICIES["best-effort"].merge([{ResourceName("cpu"): []}], sparse, PolicyOptions())
    assert numa_of(result.hint.mask) == [0, 2, 5]


def test_resources_are_merged_by_name_whatever_their_order() -> None:
    # Two combinations leave node 0, with different scores; the first one in the order of the names stays.
    wide_then_narrow = {
        ResourceName("b"): [Hint(3, preferred=False, score=10), Hint(1, preferred=False, score=20)],
        ResourceName("a"): [Hint(3, preferred=False, score=40), Hint(1, preferred=False, score=90)],
    }
    for provider in (wide_then_narrow, dict(reversed(wide_then_narrow.items()))):
        result = POLICIES["best-effort"].merge([provider], flat_topology(2), PolicyOptions())
        assert result.hint == Hint(1, preferred=False, score=30)


def test_a_combination_without_a_common_node_is_unscored() -> None:
    hints = [Hint(1, preferred=True, score=50), Hint(2, preferred=True, score=50)]
    names = [ResourceName("cpu"), ResourceName("memory")]
    assert merge_permutation(3, names, hints, weights=Weights()) == Hint(0, preferred=False, score=0)


def test_a_mask_that_comes_back_with_a_better_score_is_shown_as_chosen() -> None:
    hints = [
        Hint(1, preferred=True, score=10),
        Hint(2, preferred=True, score=50),
        Hint(1, preferred=True, score=90),
    ]
    selection = select(
        hints,
        topology=flat_topology(2),
        policy="restricted",
        options=PolicyOptions(strategy=Strategy.MOST_ALLOCATED),
        best_non_preferred=1,
    )
    assert selection is not None
    assert selection.chosen == hints[2]
    assert selection.candidates == (hints[2], hints[1])
    assert selection.rule == "score"
    assert not selection.score_decided
