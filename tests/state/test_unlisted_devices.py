"""What the kubelet has written down and List does not show."""

from __future__ import annotations

from numaplace.model.podresources import ContainerUse, DeviceBlock, PodUse
from numaplace.state.list_change import ListChange
from numaplace.state.unlisted_devices import UnlistedLog
from state.lists import then

OURS, OTHER = "example.com/gpu", "example.com/nic"


def ids(*names):
    return frozenset(names)


class Node:
    """What Lists show and the checkpoint says, in their order."""

    def __init__(self, *, written, listed=None):
        self.log, self.list = UnlistedLog(), {}
        self.written(written)
        self.listed(listed or {})

    def listed(self, devices):
        blocks = tuple(DeviceBlock(resource, tuple(ids)) for resource, ids in devices.items())
        pods = [PodUse("default", "p", (ContainerUse("main", blocks),))]
        self.list = then(self.list or ListChange(), pods)
        self.log = self.log.after_list(self.list.devices)

    def written(self, devices, *, since=None):
        self.log = self.log.written(devices, ours=[OURS], since=since or self.log)

    def held(self, in_flight=None):
        return self.log.held(self.list.devices.held, in_flight=in_flight or {})


def test_what_no_list_shows_may_be_an_init_containers():
    node = Node(written={OURS: ids("a", "b"), OTHER: ids("x")}, listed={OURS: ids("a")})
    assert node.held() == {OURS: ids("b"), OTHER: ids("x")}
    assert node.held({OURS: ids("b")}) == {OTHER: ids("x")}


def test_without_a_checkpoint_nothing_is_known_of_them():
    assert Node(written=None, listed={OURS: ids("a")}).held() == {}


BOTH = {OURS: ids("a"), OTHER: ids("x")}


def test_a_pod_that_ended_is_not_waited_for():
    """The kubelet writes that down with its next change only."""
    node = Node(written=BOTH, listed=BOTH)
    for _ in range(2):
        node.listed({})
        assert node.held() == {}


def test_what_ended_may_be_held_again():
    node = Node(written=BOTH, listed=BOTH)
    node.listed({})
    ended = node.log
    node.log = ended.granted(OURS, ["a"])
    assert node.held() == {OURS: ids("a")}
    node.log = ended
    node.written(BOTH)
    assert node.held() == {OTHER: ids("x")}


def test_what_ended_while_the_checkpoint_was_read_is_free():
    """It is as old as the moment when it was opened; the kubelet may write no other one for long."""
    node = Node(written=BOTH, listed=BOTH)
    opened = node.log
    node.listed({})
    node.written(BOTH, since=opened)
    assert node.held() == {}


def test_a_device_that_is_listed_again_may_be_kept_after_that():
    node = Node(written={OTHER: ids("x")}, listed={OTHER: ids("x")})
    for devices in ({}, {OTHER: ids("x")}, {}):
        node.listed(devices)
        assert node.held() == {}


def test_another_kubelet_lists_anew_and_goes_by_what_was_written():
    """Its running pods are listed one after the other: those to come are not taken for ended ones."""
    node = Node(written=BOTH, listed=BOTH)
    node.log, node.list = node.log.of_another_kubelet(), ListChange()
    node.listed({})
    assert node.held() == BOTH
