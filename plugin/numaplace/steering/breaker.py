"""The circuit breaker: after a pod was refused while something was withheld, nothing is, for some time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Breaker:
    """Open until a time, or closed. ``trips`` counts how often it opened. Seconds of a monotonic clock."""

    trips: int = 0
    open_until_seconds: float | None = None

    def tripped(self, *, now_seconds: float, backoff_seconds: float) -> Breaker:
        """Return the breaker opened for ``backoff_seconds`` from now."""
        return Breaker(self.trips + 1, now_seconds + backoff_seconds)

    def left_seconds(self, now_seconds: float) -> float | None:
        """Return for how long it stays open; ``None`` when it is closed."""
        if self.open_until_seconds is None or now_seconds >= self.open_until_seconds:
            return None
        return self.open_until_seconds - now_seconds
