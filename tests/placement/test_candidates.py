import pytest
from hypothesis import given
from hypothesis import strategies as st
from numaplace.model.mask import mask_of, masks_by_width, nodes_of, width
from numaplace.model.topology import NumaTopology
from numaplace.placement.candidates import (
    MAX_COMBINATIONS,
    candidate_masks,
    count_in,
)

TOPOLOGY = NumaTopology(nodes=tuple(range(64)))


@pytest.mark.parametrize(
    ("counts", "size", "required", "expected"),
    [
        pytest.param({0: 4, 1: 4}, 1, [], [{0}, {1}], id="one-device-any-node"),
        pytest.param({0: 2, 1: 4}, 3, [], [{1}], id="only-one-node-holds-three"),
        pytest.param({0: 2, 1: 2, 2: 2}, 4, [], [{0, 1}, {0, 2}, {1, 2}], id="two-nodes-needed"),
        pytest.param({0: 4, 1: 4}, 2, [{1}], [{1}], id="must-include-fixes-the-node"),
        pytest.param({0: 4, 1: 4, 3: 4}, 5, [{3}], [{0, 3}, {1, 3}], id="must-include-and-one-more"),
        pytest.param({0: 1, 1: 1}, 3, [], [], id="too-few"),
        pytest.param({5: 1, 33: 1}, 1, [], [{5}, {33}], id="sparse-ids"),
    ],
)
def test_narrowest_masks_that_fit(counts, size, required, expected):
    masks = candidate_masks(
        {mask_of([node]): count for node, count in counts.items()},
        size,
        required=[mask_of(nodes) for nodes in required],
        topology=TOPOLOGY,
    )
    assert [set(nodes_of(mask)) for mask in masks] == expected


def test_a_device_on_two_nodes_counts_for_either():
    counts = {mask_of([0, 1]): 2, mask_of([2]): 1}
    assert candidate_masks(counts, 2, topology=TOPOLOGY) == (mask_of([0]), mask_of([1]))


def test_kubernetes_135541_many_nodes_stay_bounded():
    counts = {1 << node: 1 for node in range(64)}
    masks = candidate_masks(counts, 32, topology=TOPOLOGY)
    assert 0 < len(masks) <= MAX_COMBINATIONS
    assert all(width(mask) == 32 and count_in(counts, mask) >= 32 for mask in masks)


@pytest.mark.timeout(10)
def test_devices_of_two_nodes_each_on_a_large_machine_do_not_hold_up_an_answer():
    """The bound is far above what it takes: it tells a cost that grows with the width of the masks."""
    counts = {mask_of([node, (node + 1) % 64]): 1 for node in range(64)}
    masks = candidate_masks(counts, 64, topology=TOPOLOGY)
    assert 0 < len(masks) <= MAX_COMBINATIONS
    assert all(count_in(counts, mask) >= 64 for mask in masks)


@given(
    counts=st.dictionaries(st.integers(1, 63), st.integers(1, 5), max_size=6),
    size=st.integers(1, 20),
    required=st.lists(st.integers(0, 63), max_size=2),
)
def test_same_as_walking_every_subset(counts, size, required):
    musts = [mask for mask in required if mask]
    fitting = [
        mask
        for mask in masks_by_width(range(6))
        if count_in(counts, mask) >= size
        and all(mask & must for must in musts)
        and all(mask & must for must in musts if width(must) == 1)
    ]
    bearing = 0
    for mask in (*counts, *(must for must in musts if width(must) == 1)):
        bearing |= mask
    fitting = [mask for mask in fitting if mask & ~bearing == 0]
    narrowest = min(map(width, fitting), default=0)
    found = candidate_masks(counts, size, required=required, topology=TOPOLOGY)
    if fitting:
        assert list(found) == sorted(mask for mask in fitting if width(mask) == narrowest)
    elif sum(counts.values()) < size:
        assert found == ()
