"""What the kubelet has written down and List does not show."""

from __future__ import annotations

from numaplace.state.unlisted_devices import UnlistedLog

OURS, OTHER = "example.com/gpu", "example.com/nic"


def ids(*names):
    return frozenset(names)


def log(*, written, listed=None):
    return UnlistedLog().written(written, ours=[OURS]).observed({} if listed is None else listed)


def test_what_no_list_shows_may_be_an_init_containers():
    found = log(written={OURS: ids("a", "b"), OTHER: ids("x")}, listed={OURS: ids("a")})
    assert found.held({}) == {OURS: ids("b"), OTHER: ids("x")}
    assert found.held({OURS: ids("b")}) == {OTHER: ids("x")}


def test_without_a_checkpoint_nothing_is_known_of_them():
    assert log(written=None, listed={OURS: ids("a")}).held({}) == {}


def test_a_pod_that_ended_is_not_waited_for():
    """The kubelet writes that down with its next change only."""
    written = {OURS: ids("a"), OTHER: ids("x")}
    found = log(written=written, listed=written).observed({})
    assert found.held({}) == {}
    assert found.observed({}).written(written, ours=[OURS]).held({}) == {}


def test_what_ended_may_be_held_again():
    written = {OURS: ids("a"), OTHER: ids("x")}
    ended = log(written=written, listed=written).observed({})
    assert ended.granted(OURS, ["a"]).held({}) == {OURS: ids("a")}
    again = {OURS: ids("a"), OTHER: ids("x")}
    assert ended.written(again, ours=[OURS]).held({}) == {OTHER: ids("x")}


def test_a_device_that_is_listed_again_may_be_kept_after_that():
    written = {OTHER: ids("x")}
    found = log(written=written, listed=written).observed({}).observed(written)
    assert found.held({}) == {}
    assert found.observed({}).held({}) == {}
