"""One value for all that is known of the node."""

from __future__ import annotations

from itertools import permutations

import pytest
from numaplace.model.device import Device
from numaplace.model.observation import Observation
from numaplace.model.podresources import Allocatable, ContainerUse, DeviceBlock, PodUse
from numaplace.model.topology import NumaTopology
from numaplace.state.attribution import NO_SPECS
from numaplace.state.node_state import NodeState

GPU = "example.com/gpu"
DEVICES = [Device(f"g{number}", (number // 2,)) for number in range(4)]
START = NodeState(NumaTopology((0, 1))).with_devices(GPU, DEVICES)


def pod(name, *ids):
    blocks = (DeviceBlock(GPU, ids),) if ids else ()
    return PodUse("default", name, (ContainerUse("main", blocks),))


def see(state, *pods, at=1.0, devices=()):
    return state.observed(Observation(pods, Allocatable(devices=devices), at))


def question(state, *, fresh=True):
    offered = frozenset(device.id for device in DEVICES)
    return state.question(GPU, 1, offered=offered, specs=NO_SPECS, fresh=fresh)


def test_nothing_is_in_use_before_the_first_list():
    assert START.snapshot() is None
    assert question(START).requester is None


def test_a_question_changes_nothing():
    state = see(START, pod("a"))
    assert question(state).requester.pod == ("default", "a")
    assert question(state) == question(state)


def test_an_older_list_does_not_tell_who_asks():
    assert question(see(START, pod("a")), fresh=False).requester is None


def test_an_answer_says_whose_the_grant_is_and_since_when_a_list_shows_it():
    state = see(START, pod("a"), at=1.0)
    requester = question(state).requester
    state = state.answered(GPU, ("g0",), requester=requester, asked_at_seconds=0.9, now_seconds=1.1)
    first = state.granted(GPU, ("g0",), now_seconds=1.2)
    assert (first.ledger.latest.pod, first.ledger.latest.shown_since_seconds) == (("default", "a"), 0.9)
    others = [
        first.granted(GPU, ("g0",), now_seconds=1.3),
        state.granted(GPU, ("g1",), now_seconds=1.3),
        state.kubelet_lost(now_seconds=1.2).granted(GPU, ("g0",), now_seconds=1.3),
    ]
    for other in others:
        assert (other.ledger.latest.pod, other.ledger.latest.shown_since_seconds) == (None, 1.3)


def test_a_resource_that_goes_takes_its_devices_with_it():
    """Another one may have them; nothing of them is counted."""
    state = see(START, pod("a"))
    assert state.owners(but="example.com/other") == {device.id: GPU for device in DEVICES}
    state = state.with_devices(GPU, None)
    assert state.owners(but="example.com/other") == {}
    assert GPU not in state.snapshot().resources


def version_after(change):
    before = see(START, pod("a"), at=1.0)
    after = change(before)
    return after.version != before.version


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        (lambda state: see(state, pod("a"), at=2.0), False),
        (lambda state: see(state, pod("a", "g0"), at=2.0), True),
        (lambda state: see(state, at=2.0), True),
        (lambda state: see(state, pod("a"), at=2.0, devices=(DeviceBlock("x", ("x0",), (0,)),)), True),
        (lambda state: state.granted(GPU, ("g0",), now_seconds=2.0), True),
        (lambda state: state.with_devices(GPU, DEVICES[:1]), True),
        (lambda state: state.kubelet_lost(now_seconds=2.0), False),
    ],
)
def test_the_version_differs_if_a_snapshot_may(change, differs):
    assert version_after(change) is differs


def test_versions_differ_however_short_lived_the_answers_of_the_kubelet_were():
    state, versions = START, []
    for number in range(30):
        state = see(state, devices=(DeviceBlock("vendor.com/x", (f"x{number}",), (0,)),))
        versions.append(state.version)
    assert all(one != other for one, other in permutations(versions, 2))


def test_a_value_keeps_its_own_snapshot():
    before = see(START, pod("a"))
    one, other = (before.granted(GPU, (gpu,), now_seconds=2.0) for gpu in ("g0", "g1"))
    assert [state.in_use(GPU) for state in (before, one, other)] == [set(), {"g0"}, {"g1"}]
    assert before.snapshot() is before.snapshot()


def test_another_kubelet_admits_all_pods_again():
    state = see(see(START, pod("a"), at=1.0), pod("a"), pod("b"), at=2.0)
    assert state.complete == {("default", "a")}
    state = state.kubelet_restarted(now_seconds=3.0)
    assert state.complete == set()
    again = see(state, pod("a"), at=4.0)
    assert again.complete == set()
    assert again.moving == {("default", "a")}


def test_what_another_kubelet_no_longer_lists_changes_the_version_and_has_been_freed():
    """Even if it lists nothing at all."""
    state = see(START, pod("a", "g0"), at=1.0)
    after = see(state.kubelet_restarted(now_seconds=2.0), at=3.0)
    assert after.in_use(GPU) == set()
    assert after.version != state.version
    assert after.ledger.freed_at(GPU) == {"g0": 3.0}


def test_what_another_kubelet_does_not_list_yet_may_be_held():
    state = see(START, pod("a", "g0"), at=1.0)
    state = state.written({GPU: frozenset(("g0",))}, since=state)
    state = state.kubelet_restarted(now_seconds=2.0)
    assert see(state, at=3.0).unlisted == {GPU: {"g0"}}


def test_a_decision_made_for_a_kubelet_that_has_gone_breaks_nothing():
    """Its answer comes between the start of the next kubelet and its first, empty List."""
    state = see(START, pod("a"), pod("b", "g0"), at=1.0)
    requester = question(see(state, pod("a"), pod("b", "g0"), pod("c"), at=2.0)).requester
    state = state.kubelet_restarted(now_seconds=3.0)
    state = state.answered(GPU, ("g1",), requester=requester, asked_at_seconds=1.5, now_seconds=3.0)
    assert see(state, at=4.0).complete == set()
