from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from numaplace.model.podresources import ContainerUse, DeviceBlock, PodUse
from numaplace.state.ledger import GRANT_GRACE_SECONDS, MAX_FREED_PER_RESOURCE, Ledger
from numaplace.state.list_change import ListChange
from state.lists import then

LATE = GRANT_GRACE_SECONDS + 1


def pods(**holdings):
    return tuple(
        PodUse("ns", name, (ContainerUse("c", (DeviceBlock("gpu", tuple(ids)),) if ids else ()),))
        for name, ids in holdings.items()
    )


def in_flight(ledger):
    return set(ledger.in_flight().get("gpu", ()))


@dataclass(frozen=True)
class Node:
    """A ledger with its Lists."""

    ledger: Ledger = field(default_factory=Ledger)
    list: ListChange = field(default_factory=ListChange)

    def listed(self, pods, *, now_seconds):
        change = then(self.list, pods, at=now_seconds)
        return Node(self.ledger.after_list(change), change)

    def granted(self, resource, ids, *, now_seconds, pod=None):
        ledger = self.ledger
        if pod is not None:
            ledger = ledger.answered(resource, ids, asked_at_seconds=now_seconds, pod=pod)
        return Node(ledger.granted(resource, ids, now_seconds=now_seconds), self.list)

    def offered(self, resource, ids, *, now_seconds):
        listed = self.list.devices.held
        offered = self.ledger.offered(resource, frozenset(ids), listed=listed, now_seconds=now_seconds)
        return Node(offered, self.list)

    def freed_at(self, resource):
        return self.ledger.freed_at(resource)

    def in_flight(self):
        return self.ledger.in_flight()


def granted(*ids, at=0.0, pod=None):
    return Node().granted("gpu", ids, now_seconds=at, pod=pod)


def test_a_grant_is_in_flight_until_a_list_shows_it():
    ledger = granted("a", "b").listed(pods(p="a"), now_seconds=1.0)
    assert in_flight(ledger) == {"b"}
    assert ledger.listed(pods(p="ab"), now_seconds=2.0).in_flight() == {}


def test_a_list_requested_before_the_grant_proves_nothing():
    ledger = granted("a", at=5.0).listed(pods(old="a"), now_seconds=4.0)
    assert in_flight(ledger) == {"a"}


@pytest.mark.parametrize(("now", "kept"), [(1.0, {"a"}), (GRANT_GRACE_SECONDS, {"a"}), (LATE, set())])
def test_a_failed_admission_ends_after_the_grace(now, kept):
    assert in_flight(granted("a").listed(pods(other="x"), now_seconds=now)) == kept


def test_the_grace_runs_out_also_when_the_list_does_not_change():
    same = pods(other="x")
    ledger = granted("a").listed(same, now_seconds=1.0)
    assert ledger.listed(same, now_seconds=2.0).ledger is ledger.ledger
    ended = ledger.listed(same, now_seconds=LATE)
    assert in_flight(ended) == set()
    assert ended.freed_at("gpu") == {"a": LATE}


def test_an_init_containers_grant_lasts_while_its_pod_is_listed():
    """kubernetes/kubernetes#126765."""
    ledger = granted("a", pod=("ns", "p")).listed(pods(p=""), now_seconds=LATE)
    assert in_flight(ledger) == {"a"}
    gone = ledger.listed(pods(other="x"), now_seconds=LATE + 5)
    assert in_flight(gone) == set()
    assert gone.freed_at("gpu") == {"a": LATE + 5}


def test_a_grant_ends_with_its_pod_and_is_not_for_another_one_of_that_name():
    """A StatefulSet's pod whose admission has failed comes again at once."""
    ledger = granted("a", pod=("ns", "p")).listed(pods(other="x"), now_seconds=1.0)
    assert in_flight(ledger) == set()
    assert ledger.freed_at("gpu") == {"a": 1.0}
    again = ledger.granted("gpu", ["b"], now_seconds=2.0, pod=("ns", "p"))
    assert in_flight(again.listed(pods(p=""), now_seconds=LATE)) == {"b"}
    before = granted("a", at=5.0, pod=("ns", "p")).listed(pods(other="x"), now_seconds=4.0)
    assert in_flight(before) == {"a"}, "the List is older"


def test_an_offer_ends_a_grant_at_once():
    ledger = granted("a", "b", pod=("ns", "p")).offered("gpu", {"a", "c"}, now_seconds=3.0)
    assert in_flight(ledger) == {"b"}
    assert ledger.freed_at("gpu") == {"a": 3.0}


def test_an_aligned_offer_says_nothing_of_what_it_lacks():
    ledger = granted("a").listed(pods(p="xy"), now_seconds=1.0)
    assert ledger.offered("gpu", {"other"}, now_seconds=2.0).ledger is ledger.ledger


def test_freed_at_is_when_a_list_first_lacks_it():
    ledger = Node().listed(pods(p="ab", q="c"), now_seconds=1.0).listed(pods(q="c"), now_seconds=7.0)
    assert ledger.freed_at("gpu") == {"a": 7.0, "b": 7.0}
    assert ledger.listed(pods(q="c", r="a"), now_seconds=9.0).freed_at("gpu") == {"b": 7.0}


def test_an_offer_of_a_listed_device_dates_it_for_good():
    """A finished pod stays listed by kubelets before 1.34 (kubernetes/kubernetes#119423)."""
    ledger = Node().listed(pods(done="a"), now_seconds=1.0).offered("gpu", {"a"}, now_seconds=2.0)
    assert ledger.freed_at("gpu") == {"a": 2.0}
    assert ledger.listed(pods(done="a"), now_seconds=3.0).freed_at("gpu") == {"a": 2.0}
    assert ledger.listed(pods(), now_seconds=4.0).freed_at("gpu") == {"a": 2.0}


def test_a_device_moves_from_pod_to_pod_without_being_free():
    ledger = Node().listed(pods(p="a"), now_seconds=1.0).granted("gpu", {"a"}, now_seconds=2.0)
    assert ledger.listed(pods(q="a"), now_seconds=3.0).freed_at("gpu") == {}


def test_granting_again_forgets_when_it_was_freed_and_supersedes():
    ledger = granted("a", pod=("ns", "init")).granted("gpu", ["a", "b"], now_seconds=4.0, pod=("ns", "app"))
    assert ledger.ledger.latest.pod == ("ns", "app")
    assert in_flight(ledger.listed(pods(init=""), now_seconds=4.0 + LATE)) == set()


def test_nothing_granted_is_no_grant():
    ledger = Node()
    assert ledger.granted("gpu", (), now_seconds=1.0) == ledger


def test_freed_times_are_bounded_and_keep_the_newest():
    ids = [f"d{index}" for index in range(MAX_FREED_PER_RESOURCE)]
    ledger = Node().listed(pods(p=[*ids, "late"]), now_seconds=0.0)
    ledger = ledger.listed(pods(p=["late"]), now_seconds=1.0).listed(pods(), now_seconds=2.0)
    assert len(ledger.freed_at("gpu")) == MAX_FREED_PER_RESOURCE
    assert ledger.freed_at("gpu")["late"] == 2.0
