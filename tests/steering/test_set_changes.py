"""The way from one withheld set to another, and the circuit breaker."""

from __future__ import annotations

from functools import reduce
from operator import and_

from hypothesis import given
from hypothesis import strategies as st
from numaplace.daemon.steering.suspension import BreakerBox
from numaplace.model.mask import is_subset
from numaplace.model.names import ResourceName
from numaplace.steering.published_topology import first_step

ALL_NODES = 0b1111
RESOURCES = [ResourceName(f"example.com/{name}") for name in "abc"]
SETS = st.dictionaries(st.sampled_from(RESOURCES), st.integers(1, ALL_NODES - 1))


def exposed(withheld, resource):
    return ALL_NODES & ~withheld.get(resource, 0)


@given(SETS, SETS)
def test_the_first_step_withholds_nothing_new_and_exposes_all_that_will_be(now, following):
    first = first_step(now, following)
    for resource in RESOURCES:
        assert exposed(first, resource) == exposed(now, resource) | exposed(following, resource)
    assert all(first.values())


@given(SETS, SETS, st.randoms(use_true_random=False))
def test_a_node_that_all_resources_show_is_shown_until_the_next_one_is(now, following, rng):
    """Lists of several resources arrive one by one, in any order; the first step is waited for."""
    state = dict(now)
    for target, kept in ((first_step(now, following), now), (following, following)):
        for resource in rng.sample(RESOURCES, len(RESOURCES)):
            state[resource] = target.get(resource, 0)
            assert is_subset(in_common(kept), in_common(state))


def in_common(withheld):
    return reduce(and_, (exposed(withheld, resource) for resource in RESOURCES))


@given(st.floats(0, 1e6), st.floats(0.1, 1e4), st.floats(0, 2e4))
def test_the_breaker_is_open_for_the_back_off(now, backoff, later):
    breaker = BreakerBox()
    assert breaker.left_seconds(now) is None
    breaker.trip(("default", "p"), until_seconds=now + backoff)
    left = breaker.left_seconds(now + later)
    assert (left is None) == (now + later >= now + backoff)
    assert (breaker.trips, breaker.pod) == (1, "default/p")
    breaker.trip(("default", "p"), until_seconds=now + later + backoff)
    assert breaker.trips == 2
    assert breaker.left_seconds(now + later) is not None
