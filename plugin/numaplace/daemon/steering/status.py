"""What steering does now, as others ask for it."""

from __future__ import annotations

from dataclasses import dataclass

from numaplace.daemon.steering.kubelet_probe import KnownKubelet
from numaplace.steering.decision import SteeringDecision


@dataclass(frozen=True, slots=True)
class SteeringStatus:
    """What is in force. ``held_off_seconds``: how long the circuit breaker stays open; ``None``: closed.

    ``requests_source`` is ``declared``, ``seen`` or ``none``.
    """

    known: KnownKubelet
    decision: SteeringDecision
    held_off_seconds: float | None
    trips: int
    requests_source: str
