"""What must hold for any hints: agreement with the kubelet's rules, determinism, and what scores may do."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from enginecases import topology_of
from hypothesis import given
from hypothesis import strategies as st
from numaplace.engine.compare import compare, criteria_for
from numaplace.engine.hint import Hint
from numaplace.engine.merge import ProvidersHints
from numaplace.engine.numa import average_distance
from numaplace.engine.options import PolicyName, PolicyOptions
from numaplace.engine.policy import POLICIES
from numaplace.engine.score import aggregate, utilization_score
from numaplace.engine.select import select
from numaplace.engine.weights import parse_weights, weights_from_mapping
from numaplace.model.mask import width
from numaplace.model.names import ResourceName, Strategy
from numaplace.model.topology import NumaTopology

NODES = 4
RESOURCES = ("cpu", "memory", "hugepages-1Gi", "nvidia.com/gpu", "intel.com/vf")

scores = st.integers(0, 100)
merged = st.builds(Hint, st.integers(0, 2**NODES - 1), st.booleans(), scores)
offers = st.builds(Hint, st.none() | st.integers(0, 2**NODES - 1), st.booleans(), scores)
providers = st.lists(
    st.dictionaries(
        st.sampled_from(RESOURCES).map(ResourceName), st.none() | st.lists(offers, max_size=4), max_size=2
    ),
    max_size=3,
)
topologies = st.lists(
    st.lists(st.sampled_from((10, 11, 12, 21)), min_size=NODES, max_size=NODES),
    min_size=NODES,
    max_size=NODES,
).map(topology_of)
weight_maps = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 10), max_size=5)
options_of = st.builds(
    PolicyOptions,
    prefer_closest=st.booleans(),
    strategy=st.sampled_from(Strategy),
    weights=weight_maps.map(weights_from_mapping),
)
policies = st.sampled_from(PolicyName)
best_counts = st.integers(0, NODES)


def _fold(
    hints: list[Hint], *, topology: NumaTopology, policy: str, options: PolicyOptions, best: int
) -> Hint | None:
    """The kubelet's pick, written as a sort key instead of a ladder; the first of equal keys stays."""

    def key(hint: Hint) -> tuple[int, int, int, float, int]:
        mask = hint.mask or 0
        nodes = width(mask)
        above = nodes > best
        off = 0 if hint.preferred else abs(nodes - best)
        distance = 0.0
        if options.prefer_closest and policy != PolicyName.SINGLE_NUMA_NODE:
            distance = average_distance(topology, mask)
        return (0 if hint.preferred else 1 + above, off, nodes, distance, mask)

    return min((hint for hint in hints if hint.mask), key=key, default=None)


@given(st.lists(merged, max_size=12), topologies, policies, st.booleans(), best_counts)
def test_without_a_strategy_the_pick_is_the_kubelets(
    hints: list[Hint], topology: NumaTopology, policy: PolicyName, prefer_closest: bool, best: int
) -> None:
    options = PolicyOptions(prefer_closest=prefer_closest)
    selection = select(hints, topology=topology, policy=policy, options=options, best_non_preferred=best)
    expected = _fold(hints, topology=topology, policy=policy, options=options, best=best)
    assert (selection.chosen if selection else None) == expected
    assert selection is None or (selection.structural == expected and not selection.score_decided)


@given(merged, merged, topologies, options_of, best_counts)
def test_two_hints_have_one_winner_and_one_rule(
    a: Hint, b: Hint, topology: NumaTopology, options: PolicyOptions, best: int
) -> None:
    if a.mask == b.mask or not a.mask or not b.mask:
        return
    criteria = criteria_for(topology, "restricted", options=options, best_non_preferred=best)
    forth, back = compare(a, b, criteria), compare(b, a, criteria)
    assert forth.candidate_wins != back.candidate_wins
    assert forth.rule == back.rule


@given(st.lists(merged, max_size=12), topologies, policies, options_of, best_counts)
def test_scores_choose_only_among_structural_equals(
    hints: list[Hint], topology: NumaTopology, policy: PolicyName, options: PolicyOptions, best: int
) -> None:
    selection = select(hints, topology=topology, policy=policy, options=options, best_non_preferred=best)
    if selection is None:
        assert not any(hint.mask for hint in hints)
        return
    chosen, structural = selection.chosen, selection.structural
    assert chosen.preferred == structural.preferred
    assert width(chosen.mask or 0) == width(structural.mask or 0)
    if options.prefer_closest and policy != PolicyName.SINGLE_NUMA_NODE:
        assert average_distance(topology, chosen.mask or 0) == average_distance(
            topology, structural.mask or 0
        )
    if selection.score_decided and all(hint.score for hint in hints):
        better = chosen.score > structural.score
        assert better == (options.strategy is Strategy.MOST_ALLOCATED)
        assert chosen.score != structural.score


@given(st.lists(merged, max_size=12), topologies, policies, options_of, best_counts)
def test_the_candidates_are_the_distinct_masks_with_the_chosen_among_them(
    hints: list[Hint], topology: NumaTopology, policy: PolicyName, options: PolicyOptions, best: int
) -> None:
    selection = select(hints, topology=topology, policy=policy, options=options, best_non_preferred=best)
    if selection is None:
        return
    assert [one.mask for one in selection.candidates] == sorted({one.mask for one in hints if one.mask})
    assert selection.chosen in selection.candidates
    assert set(selection.candidates) <= set(hints)
    assert (selection.rule == "only-candidate") == (len(selection.candidates) == 1)


@given(
    st.dictionaries(st.integers(1, 2**NODES - 1), st.tuples(st.booleans(), st.integers(1, 100)), min_size=1),
    topologies,
    options_of,
    best_counts,
    st.randoms(use_true_random=False),
)
def test_scored_hints_of_distinct_masks_may_come_in_any_order(
    table: dict[int, tuple[bool, int]],
    topology: NumaTopology,
    options: PolicyOptions,
    best: int,
    random: Random,
) -> None:
    hints = [Hint(mask, preferred, score) for mask, (preferred, score) in table.items()]
    shuffled = list(hints)
    random.shuffle(shuffled)
    first, second = (
        select(some, topology=topology, policy="restricted", options=options, best_non_preferred=best)
        for some in (hints, shuffled)
    )
    assert first == second


@given(providers, topologies, policies, options_of)
def test_a_merge_never_raises_and_repeats_itself(
    hints: ProvidersHints, topology: NumaTopology, policy: PolicyName, options: PolicyOptions
) -> None:
    result = POLICIES[policy].merge(hints, topology, options)
    assert result == POLICIES[policy].merge(hints, topology, options)
    assert result.hint.mask is None or 0 <= result.hint.mask <= topology.mask
    assert 0 <= result.hint.score <= 100


@given(providers, topologies, policies, options_of)
def test_a_strategy_changes_no_admission_and_no_width(
    hints: ProvidersHints, topology: NumaTopology, policy: PolicyName, options: PolicyOptions
) -> None:
    with_scores = POLICIES[policy].merge(hints, topology, options)
    plain = POLICIES[policy].merge(hints, topology, replace(options, strategy=Strategy.NONE))
    assert with_scores.admit == plain.admit
    assert with_scores.hint.preferred == plain.hint.preferred
    assert _width(with_scores.hint) == _width(plain.hint)
    if with_scores.selection:
        assert plain.selection is not None
        assert with_scores.selection.structural.mask == plain.selection.chosen.mask


def _width(hint: Hint) -> int | None:
    return None if hint.mask is None else width(hint.mask)


@given(st.lists(scores, min_size=len(RESOURCES), max_size=len(RESOURCES)), weight_maps, st.integers(1, 10))
def test_only_the_ratios_of_complete_weights_matter(
    values: list[int], weights: dict[str, int], factor: int
) -> None:
    complete = {name: weights.get(name, 1) for name in RESOURCES}
    scaled = {name: weight * factor for name, weight in complete.items()}
    scored = [
        (ResourceName(name), Hint(1, preferred=True, score=value))
        for name, value in zip(RESOURCES, values, strict=True)
    ]
    plain = aggregate(scored, weights_from_mapping(complete))
    assert plain == aggregate(scored, weights_from_mapping(scaled))
    assert plain == aggregate(scored, weights_from_mapping(weights))
    counted = [value for name, value in zip(RESOURCES, values, strict=True) if value and complete[name]]
    assert (min(counted) <= plain <= max(counted)) if counted else plain == 0


@given(st.integers(1, 10**15), st.data())
def test_a_score_is_1_to_100_and_rises_with_what_is_assigned(allocatable: int, data: st.DataObject) -> None:
    some = data.draw(st.integers(0, allocatable))
    more = data.draw(st.integers(some, allocatable))
    low, high = utilization_score(allocatable, some), utilization_score(allocatable, more)
    assert 1 <= low <= high <= 100


@given(st.dictionaries(st.text("abc./-", min_size=1), st.integers(0, 100)))
def test_weights_survive_their_text(mapping: dict[str, int]) -> None:
    weights = weights_from_mapping(mapping)
    assert parse_weights(weights.text) == weights
    assert all(weights.of(ResourceName(name)) == weight for name, weight in mapping.items())
    assert weights.of(ResourceName("unnamed")) == 1
    assert hash(weights) == hash(parse_weights(weights.text))
