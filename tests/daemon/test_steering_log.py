"""What the log says of steering: each lasting reason once."""

from __future__ import annotations

from daemon_site import RecordedLog
from numaplace.daemon.steering.report import Passing, SteeringReport
from numaplace.metrics.labels import SteeringFailure
from numaplace.metrics.metrics import Metrics
from numaplace.model.names import ResourceName
from numaplace.steering.decision import Reason, Refusal, SteeringDecision

GPU = ResourceName("example.com/gpu")


def refused(*reasons, what=""):
    return SteeringDecision(refusals=tuple(Refusal(one, what=what) for one in reasons))


def test_only_a_change_of_lasting_reasons_is_told():
    recorded = RecordedLog()
    log = SteeringReport(recorded, Metrics(version="test", clock=float).steering)
    steers = SteeringDecision(withheld={GPU: 0b1})
    for decision in (
        refused(Reason.STATE_UNKNOWN, what=Passing.NO_LIST),
        refused(Reason.KUBELET_STARTED),
        refused(Reason.SEVERAL_SIZES),
        refused(Reason.UNDER_ADMISSION),
        refused(Reason.SEVERAL_SIZES),
        refused(Reason.SEVERAL_SIZES, Reason.NOTHING_TO_GAIN),
        refused(Reason.FAILED),
        steers,
        refused(Reason.NOTHING_TO_GAIN),
        refused(Reason.UNSAFE),
        steers,
        refused(Reason.POLICY_UNKNOWN, what="it is not known"),
        refused(Reason.POLICY_UNKNOWN, what="it is not known"),
    ):
        log.in_force(decision)
    assert [(line["withheld"], bool(line["why"])) for line in recorded.events("steering")] == [
        ({}, True),
        ({GPU: (0,)}, False),
        ({}, True),
    ]


def test_a_failure_is_told_once_and_so_is_its_end():
    recorded = RecordedLog()
    log = SteeringReport(recorded, Metrics(version="test", clock=float).steering)
    for _ in range(3):
        log.failed(SteeringFailure.NO_LIST, "no List", None)
    assert len(recorded.troubles) == 1
    for _ in range(2):
        log.worked()
    assert [line["after"] for line in recorded.events("steering works again")] == ["no-list"]
    log.failed(SteeringFailure.NO_LIST, "no List", None)
    assert len(recorded.troubles) == 2
