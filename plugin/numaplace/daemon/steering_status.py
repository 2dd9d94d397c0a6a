"""What steering does now, as others ask for it."""

from __future__ import annotations

from dataclasses import dataclass

from numaplace.daemon.kubelet_config import KnownKubelet
from numaplace.steering.reasons import SteeringDecision


@dataclass(frozen=True, slots=True)
class SteeringStatus:
    """What is in force. ``held_off_seconds``: how long the circuit breaker stays open; ``None``: closed.

    ``shapes_source`` is ``declared``, ``seen`` or ``none``.
    """

    known: KnownKubelet
    decision: SteeringDecision
    held_off_seconds: float | None
    trips: int
    shapes_source: str
