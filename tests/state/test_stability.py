"""Which pods may still be under admission."""

from __future__ import annotations

from dataclasses import replace

from numaplace.model.names import DeviceId, ResourceName
from numaplace.model.podresources import ContainerUse, DeviceBlock, PodUse
from numaplace.state.list_change import ListChange
from numaplace.state.stability import QUIET_SECONDS, StabilityLog
from state.lists import then

GPU = ResourceName("example.com/gpu")


def use(name, *ids, cpus=()):
    blocks = (DeviceBlock(GPU, tuple(DeviceId(one) for one in ids)),) if ids else ()
    return PodUse("default", name, (ContainerUse("main", blocks, frozenset(cpus)),))


class Node:
    """A log with its Lists."""

    def __init__(self):
        self.log, self.list = StabilityLog(), ListChange()

    def moving(self, *pods, at, complete=()):
        self.list = then(self.list, pods, at=at)
        self.log = self.log.after_list(self.list, frozenset(("default", name) for name in complete))
        return {name for _, name in self.log.moving(at)}


def test_a_pod_moves_until_it_has_looked_the_same_for_a_while():
    node, pod = Node(), use("a", "g0")
    assert node.moving(pod, at=10) == {"a"}
    assert node.moving(replace(pod), at=10 + QUIET_SECONDS / 2) == {"a"}
    assert node.moving(pod, at=10 + QUIET_SECONDS) == set()


def test_more_that_it_gets_makes_it_move_again():
    node = Node()
    node.moving(use("a", "g0"), at=10)
    assert node.moving(use("a", "g0", cpus={1}), at=12) == {"a"}


def test_complete_pods_and_pods_that_are_gone_do_not_move():
    node = Node()
    assert node.moving(use("a"), use("b"), at=10, complete=["a"]) == {"b"}
    assert node.moving(use("a"), at=10.1, complete=["a"]) == set()


def test_two_of_one_name_are_compared_in_any_order():
    node, pods = Node(), [use("a", "g0"), use("a", "g1")]
    node.moving(*pods, at=10)
    assert node.moving(*pods[::-1], at=11.5) == set()


def test_two_that_are_alike_are_two_all_the_same():
    """The reader of Lists gives one object for both."""
    node, pod = Node(), use("a")
    node.moving(pod, at=10)
    assert node.moving(pod, pod, at=11.5) == {"a"}
    assert node.moving(pod, pod, at=13) == set()
    assert node.moving(pod, at=13.5) == {"a"}
