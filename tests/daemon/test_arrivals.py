"""Which pods the kubelet may be about to admit, by the API server's word and the Lists."""

from __future__ import annotations

from numaplace.daemon.steering.announced_pods import AnnouncedPods
from numaplace.kubelet.podresources.poller import Observation
from numaplace.managers.device_manager import PodUid
from numaplace.managers.pod import Pod
from numaplace.model.podresources import Allocatable, PodUse
from numaplace.state.attribution import Specs

KEY = ("default", "job")


def specs(uid="first"):
    return Specs({KEY: Pod(PodUid(uid), *KEY, ())})


def is_coming(arrivals, known, *, at, listed):
    pods = (PodUse(*KEY),) if listed else ()
    return bool(arrivals.coming(known, Observation(pods, Allocatable(), at)))


def test_a_pod_that_was_listed_and_is_no_more_does_not_come_again():
    """The API server may be away for hours, and its last word be that the pod runs."""
    arrivals = AnnouncedPods(lambda: 10.0)
    arrivals.told(specs())
    assert is_coming(arrivals, specs(), at=9.0, listed=False)
    assert is_coming(arrivals, specs(), at=11.0, listed=False)
    assert not is_coming(arrivals, specs(), at=12.0, listed=True)
    assert not is_coming(arrivals, specs(), at=13.0, listed=False)


def test_a_pod_of_the_same_name_comes():
    arrivals = AnnouncedPods(lambda: 10.0)
    arrivals.told(specs())
    assert is_coming(arrivals, specs(), at=9.0, listed=True), "it may be one before"
    assert is_coming(arrivals, specs(), at=11.0, listed=False)
    assert not is_coming(arrivals, specs(), at=12.0, listed=True)
    arrivals.told(specs("second"))
    assert is_coming(arrivals, specs("second"), at=13.0, listed=False)


def test_a_kubelet_that_has_started_admits_all_again():
    now = 10.0
    arrivals = AnnouncedPods(lambda: now)
    arrivals.told(specs())
    assert not is_coming(arrivals, specs(), at=11.0, listed=True)
    now = 12.0
    arrivals.forget()
    assert not is_coming(arrivals, specs(), at=11.0, listed=True), "the last List of the one before"
    assert is_coming(arrivals, specs(), at=13.0, listed=False)
