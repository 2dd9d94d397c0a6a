"""What steering changed: where the kubelet alone would have placed the container."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from numaplace.model.names import DeviceId, ResourceName
from numaplace.prediction.model import KubeletModel
from numaplace.prediction.predict import predict
from numaplace.prediction.request import Request
from numaplace.prediction.state import SteeringState
from numaplace.steering.decision import SteeringDecision, WithoutSteering

MAX_GRANTS = 512

Granted = tuple[ResourceName, frozenset[DeviceId]]


@dataclass(frozen=True, slots=True)
class InForce:
    """A decision in force, and what it was made from: the state that the admission after it finds."""

    decision: SteeringDecision
    model: KubeletModel
    state: SteeringState


class SteeredGrants:
    """The latest grants that were made while topology of their resource was withheld."""

    def __init__(self) -> None:
        self._found: OrderedDict[Granted, WithoutSteering | None] = OrderedDict()

    def granted_anew(self, granted: Granted) -> None:
        self._found.pop(granted, None)

    def note(self, granted: Granted, *, mask: int, basis: InForce) -> WithoutSteering | None:
        found = without_steering(granted[0], len(granted[1]), mask=mask, basis=basis)
        self._found[granted] = found
        self._found.move_to_end(granted)
        if len(self._found) > MAX_GRANTS:
            self._found.popitem(last=False)
        return found

    def without_steering(self, granted: Granted) -> WithoutSteering | None:
        return self._found.get(granted)


def without_steering(
    resource: ResourceName, count: int, *, mask: int, basis: InForce
) -> WithoutSteering | None:
    """Return where the grant would be without steering, if that is on other NUMA nodes.

    That is the prediction for the known request of as many that was predicted to be there; with none
    known, for a pod that requests nothing else.
    """
    known = [
        forecast
        for forecast in basis.decision.requests
        if forecast.request.total.get(resource, 0) == count
        and forecast.steered.mask is not None
        and not mask & ~forecast.steered.mask
    ]
    scores: Mapping[int, int] = {}
    if known:
        stock, scores = known[0].stock, known[0].scores
    elif basis.decision.requests:
        return None
    else:
        stock = predict(basis.model, basis.state, Request.of({resource: count}))
    if not mask or not stock.admitted or stock.mask is None or not mask & ~stock.mask:
        return None
    return WithoutSteering(stock.mask, scores)
