"""Which pods the kubelet may be about to admit, by the API server's word and the Lists."""

from __future__ import annotations

from numaplace.managers.device_manager import PodUid
from numaplace.managers.pod import Pod
from numaplace.model.observation import Observation
from numaplace.model.podresources import Allocatable, PodUse
from numaplace.state.announced_pods import AnnouncedPods
from numaplace.state.attribution import Specs
from numaplace.state.list_change import ListChange

KEY = ("default", "job")


def specs(uid="first"):
    return Specs({KEY: Pod(PodUid(uid), *KEY, ())})


class Node:
    """A kubelet's Lists and the API server's word, in their order."""

    def __init__(self):
        self.pods, self.list, self.known = AnnouncedPods(), ListChange(), specs()
        self.announced("first", at=10.0)

    def announced(self, uid, *, at):
        self.known = specs(uid)
        self.pods = self.pods.announced(self.known, now_seconds=at)

    def coming(self, *, at, listed):
        pods = (PodUse(*KEY),) if listed else ()
        self.list = self.list.then(Observation(pods, Allocatable(), at))
        self.pods = self.pods.after_list(self.list)
        return bool(self.pods.coming(self.known, self.list))


def test_a_pod_that_was_listed_and_is_no_more_does_not_come_again():
    """The API server may be away for hours, and its last word be that the pod runs."""
    node = Node()
    assert node.coming(at=9.0, listed=False)
    assert node.coming(at=11.0, listed=False)
    assert not node.coming(at=12.0, listed=True)
    assert not node.coming(at=13.0, listed=False)


def test_a_pod_of_the_same_name_comes():
    node = Node()
    assert node.coming(at=9.0, listed=True), "it may be one before"
    assert node.coming(at=11.0, listed=False)
    assert not node.coming(at=12.0, listed=True)
    node.announced("second", at=12.5)
    assert node.coming(at=13.0, listed=False)


def test_a_kubelet_that_has_started_admits_all_again():
    node = Node()
    assert not node.coming(at=11.0, listed=True)
    node.pods = node.pods.forgotten(now_seconds=12.0)
    assert not node.coming(at=11.0, listed=True), "the last List of the one before"
    assert node.coming(at=13.0, listed=False)


def test_to_ask_changes_nothing():
    node = Node()
    before = node.pods
    assert node.pods.coming(node.known, node.list)
    assert node.pods == before
