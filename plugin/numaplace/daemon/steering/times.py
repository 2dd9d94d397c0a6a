"""How long steering waits for what."""

from __future__ import annotations

from dataclasses import dataclass

from numaplace.state.stability import QUIET_SECONDS


@dataclass(frozen=True, slots=True)
class Times:
    """Tests shorten them.

    Admissions: nothing is under admission ``quiet_seconds`` after the last call. A List is requested
    ``after_activity_seconds`` after an Allocate (the container has its CPUs and memory by then),
    ``expected_seconds`` after the API server has announced a pod (it is admitted within milliseconds), not
    twice within ``between_lists_seconds``, and again ``list_retry_seconds`` after a failure.

    Lists: ``delivery_seconds`` is the limit for writing a device list (some hundred devices take one or two
    milliseconds), ``confirm_seconds`` that for the kubelet to show it. Lists of the last ``recent_seconds``
    count as recent: much longer than the kubelet needs for one. A set that was not delivered is tried again
    after ``set_retry_seconds``. ``blame_seconds`` after its end, a withheld set may still be the reason of a
    refusal that the API server reports.

    The kubelet: after a start, its checkpoint is waited for until ``restart_seconds``: devices of a pod that
    was deleted while the kubelet was down are never in use again. Its configuration is looked up again
    ``lookup_first_seconds`` after an exception, doubled each time; ``lookup_retry_seconds`` after no answer;
    ``lookup_refused_seconds`` after a refusal: rights may be given later, and an API server that has just
    started refuses what it will allow.
    """

    quiet_seconds: float = QUIET_SECONDS
    after_activity_seconds: float = 0.1
    expected_seconds: float = 0.05
    between_lists_seconds: float = 0.2
    list_seconds: float = 2.0
    list_retry_seconds: float = 1.0
    least_pause_seconds: float = 0.01
    delivery_seconds: float = 0.05
    confirm_seconds: float = 0.1
    recent_seconds: float = 0.25
    set_retry_seconds: float = 5.0
    blame_seconds: float = 10.0
    restart_seconds: float = 300.0
    lookup_first_seconds: float = 1.0
    lookup_retry_seconds: float = 60.0
    lookup_refused_seconds: float = 900.0
