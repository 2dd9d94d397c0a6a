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
from numaplace.engine.options import PolicyName, PolicyOptions
from numaplace.engine.policy import POLICIES, PolicyResult, policy_for
from numaplace.engine.score import utilization_score
from numaplace.engine.weights import parse_weights
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
    topology, options = flat_topology(2), PolicyOptions(strategy=Strategy.MOST_ALLOCATED)
    provider = {
        ResourceName("b"): [Hint(3, preferred=True, score=10), Hint(1, preferred=True, score=20)],
        ResourceName("a"): [Hint(1, preferred=True, score=90), Hint(3, preferred=True, score=40)],
    }
    swapped = dict(reversed(provider.items()))
    merge = POLICIES["best-effort"].merge
    assert merge([provider], topology, options) == merge([swapped], topology, options)
