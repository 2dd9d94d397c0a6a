"""What the log says of steering: each change of the reasons, not each change of the set."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from numaplace.daemon.runtime.logs import EventLog
from numaplace.metrics.labels import SteeringFailure
from numaplace.model.device import natural_key
from numaplace.model.mask import nodes_of
from numaplace.model.names import DeviceId, ResourceName, Strategy
from numaplace.steering.decision import Reason, SteeringDecision, WithoutSteering
from numaplace.steering.text import decision_lines, refusal_text, steered_text

COME_AND_GO = frozenset(
    {
        Reason.NOTHING_TO_GAIN,
        Reason.CONFLICT,
        Reason.UNSAFE,
        Reason.HEADROOM,
        Reason.UNDER_ADMISSION,
        Reason.NOT_DOMINANT,
    }
)
"""Reasons that follow from what pods hold just now: metrics and ``/steering`` show them."""


class Passing(StrEnum):
    """Clauses for states of a moment, which the log does not tell of."""

    UNDECIDED = "nothing has been decided yet"
    CHANGED = "devices or settings have just changed"
    NO_LIST = "PodResources has not answered yet"
    STOPPED = "steering does not run"
    STARTED = ""


_PASSING = frozenset(Passing)
_OF_A_MOMENT = frozenset({Reason.STATE_UNKNOWN, Reason.KUBELET_STARTED})


class SteeringLog:
    """Tells each thing once."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._told: frozenset[Reason] | None = None
        self._failing: SteeringFailure | None = None
        self._not_found = ""

    def decided(self, decision: SteeringDecision) -> None:
        """Tell of the reasons why nothing is withheld, when they are others than before."""
        lasting = [one for one in decision.refusals if one.reason not in COME_AND_GO]
        reasons = frozenset(one.reason for one in lasting)
        passing = any(one.reason in _OF_A_MOMENT and one.what in _PASSING for one in lasting)
        under_way = any(one.reason is Reason.UNDER_ADMISSION for one in decision.refusals)
        if passing or under_way or Reason.FAILED in reasons or reasons == self._told:
            return
        self._told = reasons
        self._log.info("steering", withheld=_named(decision), why=[refusal_text(one) for one in lasting])

    def steered(
        self,
        resource: ResourceName,
        ids: Collection[DeviceId],
        *,
        mask: int,
        stock: WithoutSteering,
        strategy: Strategy,
    ) -> None:
        """Tell of devices on other NUMA nodes than the kubelet would have chosen by itself."""
        self._log.info(
            "steered",
            resource=resource,
            ids=sorted(ids, key=natural_key),
            numa=nodes_of(mask),
            instead_of=nodes_of(stock.mask),
            why=steered_text(mask, instead_of=stock, strategy=strategy),
        )

    def failed(self, reason: SteeringFailure, what: str, exc: BaseException | None) -> None:
        """Tell of a failure, once until something has worked again."""
        if reason is self._failing:
            return
        self._failing = reason
        if exc is None:
            self._log.warning("steering failed; all topology is published", reason=what)
        else:
            self._log.error("steering failed; all topology is published", exc=exc, reason=what)

    def kubelet_not_found(self, exc: Exception) -> None:
        """Tell of an exception while the kubelet's configuration was looked up, each once."""
        if repr(exc) != self._not_found:
            self._log.error("the kubelet's configuration could not be looked up; will retry", exc=exc)
        self._not_found = repr(exc)

    def worked(self) -> None:
        """Tell, after a failure, that a set was worked out and delivered."""
        if self._failing is not None:
            self._log.info("steering works again", after=self._failing)
        self._failing = None

    def tripped(self, pod: str, decision: SteeringDecision, *, backoff_seconds: float) -> None:
        """Tell that the circuit breaker has opened."""
        self._log.warning(
            "a pod was refused while topology was withheld; all is published",
            pod=pod,
            backoff_seconds=backoff_seconds,
            decision=list(decision_lines(decision)),
        )


def _named(decision: SteeringDecision) -> dict[str, list[int]]:
    return {resource: sorted(nodes) for resource, nodes in decision.withheld.items()}
