"""The fast merge against the plain one: equal in everything, whatever the hints."""

from __future__ import annotations

from dataclasses import replace

import pytest
from effort import examples
from enginecases import flat_topology, load, numa_of, providers_of, topology_of
from hypothesis import given, settings
from hypothesis import strategies as st
from numaplace.engine.fast_merge import Limits, fast_merge
from numaplace.engine.hint import Hint
from numaplace.engine.merge import (
    Merged,
    ProvidersHints,
    ResourceHints,
    filter_providers_hints,
    merge,
)
from numaplace.engine.options import PolicyName, PolicyOptions
from numaplace.engine.policy import single_node_hints
from numaplace.engine.weights import parse_weights, weights_from_mapping
from numaplace.model.mask import mask_of, masks_by_width
from numaplace.model.names import ResourceName, Strategy
from numaplace.model.topology import NumaTopology

RESOURCES = ("cpu", "hugepages-1Gi", "memory", "nvidia.com/gpu")
POLICIES = (PolicyName.BEST_EFFORT, PolicyName.RESTRICTED, PolicyName.SINGLE_NUMA_NODE)
NO_TABLES = Limits(pairs=0)

node_ids = st.sampled_from(((0,), (0, 1), (0, 1, 2), (0, 1, 2, 3), (1, 4, 6)))
distances = st.sampled_from((10, 11, 12, 21))


@st.composite
def topologies(draw: st.DrawFn) -> NumaTopology:
    nodes = draw(node_ids)
    rows = {a: {b: draw(distances) for b in nodes} for a in nodes}
    return NumaTopology(nodes=nodes, distances=rows)


def offers(topology: NumaTopology, scores: st.SearchStrategy[int]) -> st.SearchStrategy[ProvidersHints]:
    masks = st.lists(st.sampled_from((*topology.nodes, 5)), max_size=4).map(mask_of)
    hints = st.builds(Hint, st.none() | masks, st.booleans(), scores)
    lists = st.none() | st.lists(hints, max_size=6)
    return st.lists(
        st.dictionaries(st.sampled_from(RESOURCES).map(ResourceName), lists, max_size=2), max_size=3
    )


options_of = st.builds(
    PolicyOptions,
    prefer_closest=st.booleans(),
    strategy=st.sampled_from(Strategy),
    weights=st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 5)).map(weights_from_mapping),
)
policies = st.sampled_from(POLICIES)


def both(
    filtered: tuple[ResourceHints, ...], topology: NumaTopology, policy: str, options: PolicyOptions
) -> tuple[Merged, Merged]:
    """The fast and the plain result of the hints that the policy merges."""
    if policy == PolicyName.SINGLE_NUMA_NODE:
        filtered = single_node_hints(filtered)
    fast = fast_merge(filtered, topology=topology, policy=policy, options=options)
    return fast, merge(filtered, topology=topology, policy=policy, options=options)


@settings(max_examples=examples(400))
@given(st.data(), topologies(), policies, options_of)
def test_it_is_the_plain_merge(
    data: st.DataObject, topology: NumaTopology, policy: PolicyName, options: PolicyOptions
) -> None:
    scores = data.draw(
        st.sampled_from((st.just(0), st.integers(1, 4), st.integers(0, 3), st.integers(0, 100)))
    )
    hints = filter_providers_hints(data.draw(offers(topology, scores)))
    fast, plain = both(hints, topology, policy, options)
    assert fast == plain


@settings(max_examples=examples(200))
@given(
    st.lists(
        st.lists(st.builds(Hint, st.integers(1, 7), st.just(value=False), st.integers(0, 3)), max_size=12),
        min_size=1,
        max_size=3,
    ),
    options_of,
)
def test_it_follows_the_fold_where_scores_go_in_circles(
    lists: list[list[Hint]], options: PolicyOptions
) -> None:
    # Non-preferred hints only: many combinations come to one mask with different scores, or with none.
    hints = tuple(
        ResourceHints(ResourceName(name), tuple(some)) for name, some in zip(RESOURCES, lists, strict=False)
    )
    fast, plain = both(hints, flat_topology(3), "best-effort", options)
    assert fast == plain


@pytest.mark.parametrize("strategy", list(Strategy))
def test_it_is_the_plain_merge_of_the_hints_that_a_kubelet_merged(strategy: Strategy) -> None:
    for case in load("kubelet_recorded.json"):
        options = PolicyOptions(prefer_closest=case["closest"], strategy=strategy)
        hints = filter_providers_hints(providers_of(case["providers"]))
        fast, plain = both(hints, topology_of(case["distances"]), case["policy"], options)
        assert fast == plain, case


@settings(max_examples=examples(200))
@given(st.data(), topologies(), policies, options_of)
def test_beyond_the_limits_only_scores_of_non_preferred_hints_may_differ(
    data: st.DataObject, topology: NumaTopology, policy: PolicyName, options: PolicyOptions
) -> None:
    masks = st.lists(st.sampled_from(topology.nodes), max_size=4).map(mask_of)
    hints = st.lists(st.builds(Hint, st.none() | masks, st.booleans(), st.integers(1, 100)), max_size=6)
    lists = data.draw(st.lists(hints, min_size=1, max_size=4))
    filtered = tuple(
        ResourceHints(ResourceName(name), tuple(some)) for name, some in zip(RESOURCES, lists, strict=False)
    )
    fast = fast_merge(filtered, topology=topology, policy=policy, options=options, limits=NO_TABLES)
    plain = merge(filtered, topology=topology, policy=policy, options=options)
    if plain.selection is None:
        assert fast == plain
        return
    assert fast.selection is not None
    assert _structure(fast.selection.structural) == _structure(plain.selection.structural)
    assert [_structure(one) for one in fast.selection.candidates] == [
        _structure(one) for one in plain.selection.candidates
    ]
    if plain.hint.preferred:
        assert fast.hint == plain.hint
        assert fast.selection.structural == plain.selection.structural
    if options.strategy is Strategy.NONE:
        assert _structure(fast.hint) == _structure(plain.hint)
        assert fast.selection.rule == plain.selection.rule


def _structure(one: Hint) -> tuple[int | None, bool]:
    return one.mask, one.preferred


def _offered(nodes: range, *, narrowest: int, shift: int) -> tuple[Hint, ...]:
    """All masks of at least ``narrowest`` nodes; the narrowest ones preferred, each scored."""
    return tuple(
        Hint(mask, mask.bit_count() == narrowest, 1 + (mask * 37 + shift) % 100)
        for mask in masks_by_width(nodes, smallest=narrowest)
    )


def _many(nodes: int, narrowest: tuple[int, ...]) -> tuple[ResourceHints, ...]:
    return tuple(
        ResourceHints(ResourceName(f"example.com/r{n}"), _offered(range(nodes), narrowest=width, shift=7 * n))
        for n, width in enumerate(narrowest)
    )


@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize("narrowest", [(1, 1, 1), (1, 2, 1), (2, 2, 3)])
def test_all_masks_of_four_nodes(narrowest: tuple[int, ...], strategy: Strategy) -> None:
    options = PolicyOptions(strategy=strategy, weights=parse_weights("example.com/r1=3"))
    fast, plain = both(_many(4, narrowest), flat_topology(4), "best-effort", options)
    assert fast == plain


@pytest.mark.parametrize("strategy", list(Strategy))
def test_a_large_machine_gets_the_same_answer_from_tables_and_from_transforms(strategy: Strategy) -> None:
    # Each provider offers every mask, narrow first, so that the first hints that contain a mask are it.
    hints, options = _many(7, (1, 1, 1, 1)), PolicyOptions(strategy=strategy)
    tables, transforms = (
        fast_merge(hints, topology=flat_topology(7), policy="restricted", options=options, limits=limits)
        for limits in (Limits(), NO_TABLES)
    )
    assert tables == transforms
    assert tables.hint.preferred
    assert tables.selection is not None
    assert len(tables.selection.candidates) == 127


def test_twenty_resources_on_eight_nodes_are_merged() -> None:
    merged = fast_merge(
        _many(8, (1,) * 20), topology=flat_topology(8), policy="restricted", options=PolicyOptions()
    )
    assert numa_of(merged.hint.mask) == [0]
    assert merged.hint.preferred


def test_a_fold_that_takes_too_long_is_made_from_the_candidates() -> None:
    hints, options = _many(4, (1, 2, 1)), PolicyOptions(strategy=Strategy.MOST_ALLOCATED)
    merged = fast_merge(
        hints, topology=flat_topology(4), policy="best-effort", options=options, limits=Limits(steps=10)
    )
    assert merged.selection is not None
    structure = replace(options, strategy=Strategy.NONE)
    plain = merge(hints, topology=flat_topology(4), policy="best-effort", options=structure)
    rivals = [one for one in merged.selection.candidates if one.mask and one.mask.bit_count() == 2]
    assert merged.hint.score == max(one.score for one in rivals)
    assert merged.selection.structural == plain.hint
