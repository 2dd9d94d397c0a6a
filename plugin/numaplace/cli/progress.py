"""A progress bar on standard error: on a terminal only, and removed at the end."""

from __future__ import annotations

import time
from collections.abc import Callable

from numaplace.cli.console import Console

FEWEST_STEPS = 200
_WIDTH = 30
_EVERY_SECONDS = 0.2


class Progress:
    """Draws the share of ``total`` steps that are done. Call ``finish`` before anything else is written."""

    def __init__(self, console: Console, total: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._err = console.err
        self._total = total
        self._clock = clock
        self._wanted = total >= FEWEST_STEPS and console.err.isatty()
        self._started = self._drawn = clock()

    def __call__(self, done: int) -> None:
        if not self._wanted or self._clock() - self._drawn < _EVERY_SECONDS:
            return
        self._drawn = self._clock()
        left = (self._drawn - self._started) / done * (self._total - done)
        filled = _WIDTH * done // self._total
        bar = "#" * filled + "." * (_WIDTH - filled)
        self._err.write(f"\r[{bar}] {done}/{self._total} steps, {left:.0f} s left \x1b[K")
        self._err.flush()

    def finish(self) -> None:
        if self._wanted:
            self._err.write("\r\x1b[K")
            self._err.flush()
