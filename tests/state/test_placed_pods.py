from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from numaplace.model.podresources import ContainerUse, DeviceBlock, PodUse
from numaplace.state.list_change import ListChange
from numaplace.state.placed_pods import SETTLED_SECONDS, PlacedPodsLog
from state.lists import then


def pod(name, *devices):
    blocks = tuple(DeviceBlock(f"example.com/{one[0]}", (one,)) for one in devices)
    return PodUse("ns", name, (ContainerUse("main", blocks),))


class Observer:
    """Shows Lists to a log; ``known`` are all names by default."""

    def __init__(self, *first):
        self.log, self.list = PlacedPodsLog(), ListChange()
        self.see(*first, at=0.0)

    def see(self, *pods, at, complete=(), known=None):
        known = {one.key for one in pods} if known is None else {("ns", name) for name in known}
        self.list = then(self.list, pods, at=at)
        self.log, settled = self.log.after_list(
            self.list, complete={("ns", name) for name in complete}, known=known, now_seconds=at
        )
        return [one.name for one in settled]


def test_a_pod_is_given_once_when_it_is_done_with_admission():
    seen = Observer()
    assert seen.see(pod("a"), at=1) == []
    assert seen.see(pod("a", "vf0"), at=2) == []
    assert seen.see(pod("a", "vf0", "gpu0"), pod("b"), at=2.1, complete=["a"]) == ["a"]
    assert seen.see(pod("a", "vf0", "gpu0"), pod("b"), at=99, complete=["a"]) == []


def test_the_last_pod_is_given_when_nothing_has_been_added_for_a_while():
    seen = Observer()
    assert seen.see(pod("a", "vf0"), at=1) == []
    assert seen.see(pod("a", "vf0", "gpu0"), at=2) == []
    assert seen.see(pod("a", "vf0", "gpu0"), at=1.9 + SETTLED_SECONDS) == []
    assert seen.see(pod("a", "vf0", "gpu0"), at=2 + SETTLED_SECONDS) == ["a"]


def test_pods_placed_before_our_time_are_not_given():
    old = pod("old", "vf0")
    seen = Observer(old)
    assert seen.see(old, pod("new", "vf1"), at=9, complete=["old"]) == []
    assert seen.see(old, pod("new", "vf1"), at=99) == ["new"]


def test_a_pod_waits_until_it_is_known():
    seen = Observer()
    assert seen.see(pod("a", "vf0"), at=1, known=[]) == []
    assert seen.see(pod("a", "vf0"), at=99, known=[]) == []
    assert seen.see(pod("a", "vf0"), at=100) == ["a"]


def test_a_successor_of_the_same_name_is_given_too():
    seen = Observer()
    assert seen.see(pod("web-0", "vf0"), at=1, complete=["web-0"]) == ["web-0"]
    assert seen.see(pod("web-0"), at=2) == []
    assert seen.see(pod("web-0", "vf0"), at=3, complete=["web-0"]) == ["web-0"]


@given(st.lists(st.sampled_from(["vf0", "vf1", "gpu0"]), min_size=1, unique=True), st.randoms())
def test_the_order_in_which_list_shows_devices_means_nothing(devices, chance):
    seen = Observer()
    assert seen.see(pod("a", *devices), at=0) == []
    chance.shuffle(devices)
    shuffled = pod("a", *devices)
    shuffled = replace(shuffled, containers=tuple(replace(one) for one in shuffled.containers))
    assert seen.see(shuffled, at=SETTLED_SECONDS) == ["a"]
