"""Waiting for a condition, with a limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class NeverHappenedError(AssertionError):
    """A condition did not come true in its time."""


def until(
    condition: Callable[[], T | None],
    what: str,
    *,
    limit_seconds: float = 20.0,
    every_seconds: float = 0.1,
    detail: Callable[[], object] | None = None,
) -> T:
    """Return the first truthy value of ``condition``; ``NeverHappenedError`` after the limit.

    ``what`` completes the sentence "waited N s for ..."; ``detail`` is asked for the state at the end.
    """
    deadline = time.monotonic() + limit_seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            seen = f"; last seen: {detail()!r}" if detail else f"; last value: {value!r}"
            raise NeverHappenedError(f"waited {limit_seconds:g} s for {what}{seen}")
        time.sleep(every_seconds)
