"""Keeping calls under a rate."""

from __future__ import annotations

from collections.abc import Callable


class TokenBucket:
    """Allows ``burst`` calls at once and ``rate_per_second`` in the long run; ``clock`` is in seconds."""

    def __init__(self, *, rate_per_second: float, burst: int, clock: Callable[[], float]) -> None:
        self._rate = rate_per_second
        self._burst = float(burst)
        self._clock = clock
        self._tokens = self._burst
        self._at = clock()

    def take(self) -> float:
        """Take a token: return 0.0, or, taking none, the seconds until there will be one."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        if self._tokens >= 1.0:
            self._tokens -= 1.0
            return 0.0
        return (1.0 - self._tokens) / self._rate
