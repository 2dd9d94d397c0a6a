"""What one List changes, whatever objects it comes in."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numaplace.model.podresources import ContainerUse, DeviceBlock, PodUse
from numaplace.state.list_change import ListChange, PodChanges
from numaplace.state.pod_totals import ContributionCache
from state.lists import first, then


def pod(name, *ids, cpus=()):
    blocks = (DeviceBlock("gpu", ids),) if ids else ()
    return PodUse("ns", name, (ContainerUse("c", blocks, frozenset(cpus)),))


def names(keys):
    return {name for _, name in keys}


def test_the_first_list_brings_all():
    change = first([pod("a", "g0"), pod("b")])
    assert names(change.pods.came) == {"a", "b"}
    assert change.devices.added == {"gpu": {"g0"}}


@pytest.mark.parametrize(
    ("after", "changed", "came", "emptied", "gone"),
    [
        pytest.param([pod("a", "g0"), pod("b")], "", "", "", "", id="the-same-in-other-objects"),
        pytest.param([pod("b"), pod("a", "g0")], "", "", "", "", id="in-another-order"),
        pytest.param([pod("a", "g0", cpus=[1]), pod("b")], "a", "", "", "", id="more"),
        pytest.param([pod("a", "g0"), pod("b"), pod("c")], "c", "c", "", "", id="a-new-pod"),
        pytest.param([pod("a", "g0"), pod("b"), pod("b")], "b", "b", "", "", id="a-successor-beside"),
        pytest.param([pod("a"), pod("b")], "a", "", "a", "", id="a-successor-instead"),
        pytest.param([pod("a", "g0")], "", "", "", "b", id="gone"),
    ],
)
def test_what_pods_do(after, changed, came, emptied, gone):
    pods = then(first([pod("a", "g0"), pod("b")]), after).pods
    found = [names(keys) for keys in (pods.changed, pods.came, pods.emptied, pods.gone)]
    assert found == [set(changed), set(came), set(emptied), set(gone)]
    assert bool(pods) == bool(changed or gone)


def test_which_devices_come_into_use_and_out_of_it():
    before = first([pod("a", "g0", "g1"), pod("b", "g2")])
    change = then(before, [pod("a", "g0"), pod("c", "g2", "g3")])
    assert change.devices.held == {"gpu": {"g0", "g2", "g3"}}
    assert (change.devices.added, change.devices.removed) == ({"gpu": {"g3"}}, {"gpu": {"g1"}})


def test_the_same_list_again_is_not_looked_at():
    before = first([pod("a", "g0")], at=1.0)
    change = before.then(before.observation)
    assert (change.pods, change.devices.added) == (PodChanges(), {})
    assert change.entries is before.entries


def test_all_pods_of_another_kubelet_come_anew():
    before = first([pod("a", "g0"), pod("b", "g1")])
    change = then(replace(before, final=True), [pod("a", "g0")])
    assert (names(change.pods.came), names(change.pods.gone)) == ({"a"}, {"b"})
    assert change.devices.removed == {"gpu": {"g1"}}
    assert change.another
    assert not then(change, [pod("a", "g0")]).another
    assert not change.then(change.observation).another


def test_another_kubelet_without_pods_is_a_change():
    change = then(replace(first([pod("a", "g0")]), final=True), [])
    assert (bool(change.pods), names(change.pods.gone)) == (True, {"a"})


POOL = [pod(name, *ids) for name in "ab" for ids in ((), ("g0",), ("g1", "g2"))]
LISTS = st.lists(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=6), max_size=6)


@given(lists=LISTS)
def test_the_steps_lead_to_what_a_first_list_would_show(lists):
    """Known objects are not looked at again: that must not show."""
    change, cache = ListChange(), ContributionCache()
    for chosen in lists:
        pods = [PodUse(*POOL[at].key, POOL[at].containers) if anew else POOL[at] for at, anew in chosen]
        before, change = change, then(change, pods, cache=cache)
        plain = first(pods)
        assert {key: sorted(map(repr, uses)) for key, uses in change.entries.items()} == {
            key: sorted(map(repr, uses)) for key, uses in plain.entries.items()
        }
        assert change.devices.held == plain.devices.held
        assert change.pods.gone == before.entries.keys() - plain.entries.keys()
        assert change.pods.came <= change.pods.changed <= change.entries.keys()
