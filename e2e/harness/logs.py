"""Keeps the logs of the processes that ran during a failed test."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

TAIL_LINES = 25
TAIL_WIDTH = 240


class LogKeeper:
    """Knows which logs are being written now, and where copies go when a test fails."""

    def __init__(self, kept: Path) -> None:
        self._kept = kept
        self._live: dict[Path, str] = {}

    @contextlib.contextmanager
    def watching(self, name: str, log: Path) -> Iterator[None]:
        self._live[log] = name
        try:
            yield
        finally:
            del self._live[log]

    def keep(self, test: str) -> list[tuple[Path, str]]:
        """Copy the live logs for a failed test; return each copy's path and last lines."""
        folder = self._kept / re.sub(r"[^\w.\-]+", "_", test)
        kept = []
        for number, (log, name) in enumerate(sorted(self._live.items())):
            if log.exists():
                folder.mkdir(parents=True, exist_ok=True)
                copy = folder / f"{number}-{name}.log"
                shutil.copyfile(log, copy)
                lines = copy.read_text(errors="replace").splitlines()
                kept.append((copy, "\n".join(line[:TAIL_WIDTH] for line in lines[-TAIL_LINES:])))
        return kept
