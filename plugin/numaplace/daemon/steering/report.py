"""Log lines and metrics of steering. The log has each change of the reasons, not each change of the set."""

from __future__ import annotations

import time
from collections.abc import Collection
from enum import StrEnum

from numaplace.daemon.runtime.logs import EventLog
from numaplace.daemon.runtime.trouble_log import TroubleLog
from numaplace.metrics.labels import SteeredEffect, SteeringFailure
from numaplace.metrics.steering import SteeringMetrics
from numaplace.model.device import natural_key
from numaplace.model.mask import nodes_of
from numaplace.model.names import DeviceId, PodKey, ResourceName, Strategy
from numaplace.steering.decision import Reason, SteeringDecision, WithoutSteering
from numaplace.steering.text import decision_lines, refusal_text, steered_text

FAILED = "steering failed; all topology is published"
NOT_LOOKED_UP = "the kubelet's configuration could not be looked up; will retry"

COME_AND_GO = frozenset(
    {
        Reason.NOTHING_TO_GAIN,
        Reason.CONFLICT,
        Reason.UNSAFE,
        Reason.HEADROOM,
        Reason.UNDER_ADMISSION,
    }
)
"""Reasons that follow from what pods hold just now: metrics and ``/steering`` show them."""


class Passing(StrEnum):
    """Clauses for states of a moment, which are not logged."""

    UNDECIDED = "nothing has been decided yet"
    CHANGED = "devices or settings have just changed"
    NO_LIST = "PodResources has not answered yet"
    STOPPED = "steering does not run"
    STARTED = ""


_PASSING = frozenset(Passing)
_OF_A_MOMENT = frozenset({Reason.STATE_UNKNOWN, Reason.KUBELET_STARTED})


class SteeringReport:
    """Logs each thing once, and counts it each time."""

    def __init__(self, log: EventLog, metrics: SteeringMetrics) -> None:
        self._log = log
        self._metrics = metrics
        self._reasons: frozenset[Reason] | None = None
        self._failure = TroubleLog(log, FAILED, over="steering works again", clock=time.monotonic)
        self._no_lookup = TroubleLog(log, NOT_LOOKED_UP, clock=time.monotonic)

    def computed(self, decision: SteeringDecision, *, duration_seconds: float) -> None:
        self._metrics.count_decision(decision, duration_seconds=duration_seconds)

    def in_force(self, decision: SteeringDecision) -> None:
        lasting = [one for one in decision.refusals if one.reason not in COME_AND_GO]
        reasons = frozenset(one.reason for one in lasting)
        passing = any(one.reason in _OF_A_MOMENT and one.what in _PASSING for one in lasting)
        under_way = any(one.reason is Reason.UNDER_ADMISSION for one in decision.refusals)
        if passing or under_way or Reason.FAILED in reasons or reasons == self._reasons:
            return
        self._reasons = reasons
        named = {resource: nodes_of(mask) for resource, mask in decision.withheld.items()}
        self._log.info("steering", withheld=named, why=[refusal_text(one) for one in lasting])

    def list_sent(self, resource: ResourceName) -> None:
        self._metrics.count_list(resource)

    def grant(
        self,
        resource: ResourceName,
        ids: Collection[DeviceId],
        *,
        mask: int,
        otherwise: WithoutSteering | None,
        strategy: Strategy,
    ) -> None:
        effect = SteeredEffect.SAME if otherwise is None else SteeredEffect.CHANGED
        self._metrics.count_grant(resource, effect)
        if otherwise is not None:
            self._log.info(
                "steered",
                resource=resource,
                ids=sorted(ids, key=natural_key),
                numa=nodes_of(mask),
                instead_of=nodes_of(otherwise.mask),
                why=steered_text(mask, instead_of=otherwise, strategy=strategy),
            )

    def failed(self, reason: SteeringFailure, what: str, exc: BaseException | None = None) -> None:
        """Report a failure; logged once until something has worked again."""
        self._metrics.count_failure(reason)
        self._failure.happened(reason, exc=exc, reason=what)

    def lookup_failed(self, exc: Exception) -> None:
        self._metrics.count_failure(SteeringFailure.ERROR)
        self._no_lookup.happened(repr(exc), exc=exc)

    def looked_up(self) -> None:
        self._no_lookup.ended()

    def worked(self) -> None:
        self._failure.ended(after=self._failure.key)

    def tripped(self, pod: PodKey, decision: SteeringDecision, *, backoff_seconds: float) -> None:
        self._metrics.count_trip()
        self._log.warning(
            "a pod was refused while topology was withheld; all is published",
            pod="/".join(pod),
            backoff_seconds=backoff_seconds,
            decision=list(decision_lines(decision)),
        )
