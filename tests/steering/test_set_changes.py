"""The way from one withheld set to another, and the circuit breaker."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from numaplace.daemon.steering.suspension import BreakerBox
from numaplace.model.names import ResourceName
from numaplace.steering.withheld import first_step

NODES = frozenset(range(4))
RESOURCES = [ResourceName(f"example.com/{name}") for name in "abc"]
SETS = st.dictionaries(
    st.sampled_from(RESOURCES), st.frozensets(st.sampled_from(sorted(NODES)), min_size=1, max_size=3)
)


def exposed(withheld, resource):
    return NODES - withheld.get(resource, frozenset())


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
            state[resource] = target.get(resource, frozenset())
            assert in_common(state) >= in_common(kept)


def in_common(withheld):
    return frozenset.intersection(*(exposed(withheld, resource) for resource in RESOURCES))


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
