"""How often something may be done, and how long to wait after it has failed. The caller has the clock."""

from __future__ import annotations

from collections.abc import Callable


class TokenBucket:
    """Allows ``burst`` calls at once and ``rate_per_second`` in the long run."""

    def __init__(self, *, rate_per_second: float, burst: int, now_seconds: float) -> None:
        self._rate = rate_per_second
        self._burst = float(burst)
        self._tokens = self._burst
        self._at = now_seconds

    def take(self, now_seconds: float) -> float:
        """Take a token: return 0.0, or, taking none, the seconds until there will be one."""
        self._tokens = min(self._burst, self._tokens + (now_seconds - self._at) * self._rate)
        self._at = now_seconds
        if self._tokens >= 1.0:
            self._tokens -= 1.0
            return 0.0
        return (1.0 - self._tokens) / self._rate


class Backoff:
    """Pauses that double from ``first_seconds`` up to ``longest_seconds``.

    ``chance`` gives numbers from 0 to 1 and makes each pause half to one and a half times as long, so that
    the nodes of a cluster do not all come back at once. Without it pauses are exact.
    """

    def __init__(
        self, *, first_seconds: float, longest_seconds: float, chance: Callable[[], float] | None = None
    ) -> None:
        self._first = first_seconds
        self._longest = longest_seconds
        self._chance = chance
        self._following = first_seconds

    def pause(self, *, longest_seconds: float | None = None) -> float:
        """Return the seconds to wait after one more failure; ``longest_seconds`` holds for this one only."""
        pause = min(self._following, self._longest if longest_seconds is None else longest_seconds)
        self._following = pause * 2
        return pause if self._chance is None else pause * (0.5 + self._chance())

    def reset(self) -> None:
        """Begin with the first pause again."""
        self._following = self._first
