"""What steering did to grants: where the kubelet by itself would have placed the container."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from numaplace.model.names import DeviceId, ResourceName
from numaplace.steering.node import SteeringNode
from numaplace.steering.predict import predict
from numaplace.steering.reasons import SteeringDecision, Unsteered
from numaplace.steering.shape import Shape
from numaplace.steering.state import SteeringState

MAX_REMEMBERED = 512

Granted = tuple[ResourceName, frozenset[DeviceId]]


@dataclass(frozen=True, slots=True)
class Basis:
    """A decision in force, and what it was made from: the state that the admission after it finds."""

    decision: SteeringDecision
    node: SteeringNode
    state: SteeringState


class SteeredGrants:
    """The latest grants that were made while topology of their resource was withheld."""

    def __init__(self) -> None:
        self._found: OrderedDict[Granted, Unsteered | None] = OrderedDict()

    def forget(self, resource: ResourceName, ids: Collection[DeviceId]) -> None:
        """Forget an earlier grant of these devices: they are granted anew."""
        self._found.pop((resource, frozenset(ids)), None)

    def note(
        self, resource: ResourceName, ids: Collection[DeviceId], *, mask: int, basis: Basis
    ) -> Unsteered | None:
        """Remember a grant on the NUMA nodes of ``mask``; return ``stock`` of it."""
        stock = stock_of(resource, len(ids), mask=mask, basis=basis)
        key = (resource, frozenset(ids))
        self._found[key] = stock
        self._found.move_to_end(key)
        if len(self._found) > MAX_REMEMBERED:
            self._found.popitem(last=False)
        return stock

    def stock(self, resource: ResourceName, ids: Collection[DeviceId]) -> Unsteered | None:
        """Return where the kubelet would have placed it without steering, if that is elsewhere."""
        return self._found.get((resource, frozenset(ids)))


def stock_of(resource: ResourceName, count: int, *, mask: int, basis: Basis) -> Unsteered | None:
    """Return where the grant would be without steering, if that is on other NUMA nodes.

    That is the prediction for the known shape that asks for as many, and was predicted to be there; with none
    known, for a pod which asks for nothing else.
    """
    known = [
        outlook
        for outlook in basis.decision.shapes
        if outlook.shape.total.get(resource, 0) == count
        and outlook.steered.mask is not None
        and not mask & ~outlook.steered.mask
    ]
    scores: Mapping[int, int] = {}
    if known:
        stock, scores = known[0].stock, known[0].scores
    elif basis.decision.shapes:
        return None
    else:
        stock = predict(basis.node, basis.state, Shape.of({resource: count}))
    if not mask or not stock.admitted or stock.mask is None or not mask & ~stock.mask:
        return None
    return Unsteered(stock.mask, scores)
