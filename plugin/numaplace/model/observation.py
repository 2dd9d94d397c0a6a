"""What the kubelet said about its pods at one moment."""

from __future__ import annotations

from dataclasses import dataclass

from numaplace.model.podresources import Allocatable, PodUse


@dataclass(frozen=True, slots=True)
class Observation:
    """One PodResources List. ``taken_at_seconds`` is when it was sent, on the poller's monotonic clock.

    ``allocatable`` is from its own, rarer call; empty when the kubelet has answered List but never that.
    """

    pods: tuple[PodUse, ...]
    allocatable: Allocatable
    taken_at_seconds: float
