"""What steering does now."""

from __future__ import annotations

from dataclasses import dataclass

from numaplace.kubelet.config.model import KnownKubelet
from numaplace.steering.decision import SteeringDecision


@dataclass(frozen=True, slots=True)
class SteeringStatus:
    """What is in force. ``held_off_seconds``: how long the circuit breaker stays open; ``None``: closed.

    ``requests_source`` is ``declared``, ``seen`` or ``none``. ``quiet``: a List shows that nothing is under
    admission.
    """

    known: KnownKubelet
    decision: SteeringDecision
    held_off_seconds: float | None = None
    trips: int = 0
    requests_source: str = "none"
    quiet: bool = False
