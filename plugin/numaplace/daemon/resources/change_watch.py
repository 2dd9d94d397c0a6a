"""Waits for something to change in the directories that a device source names, or for time to pass."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from numaplace.kubelet.directories import DirectoryWatch

SWARM_GAP_SECONDS = 0.2
"""Events come in swarms (a driver being bound); the scan starts once they have ended."""
LONGEST_SWARM_SECONDS = 2.0


class ChangeWatch:
    """A hint only: where ``directories`` sees nothing (sysfs), the time limit is what counts."""

    def __init__(self, directories: DirectoryWatch) -> None:
        self._directories = directories
        self._followed: frozenset[Path] = frozenset()
        self._changed = asyncio.Event()

    def follow(self, directories: Iterable[Path]) -> None:
        wanted = frozenset(directories)
        for directory in self._followed - wanted:
            self._directories.unfollow(directory, self._on_change)
        self._followed = wanted
        for directory in wanted:
            self._directories.follow(directory, self._on_change)

    async def wait(self, timeout_seconds: float) -> None:
        """Return once the directories are quiet again after a change, at the latest after the time limit."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._changed.wait()
            async with asyncio.timeout(LONGEST_SWARM_SECONDS):
                while self._changed.is_set():
                    self._changed.clear()
                    await asyncio.sleep(SWARM_GAP_SECONDS)

    def _on_change(self, _name: str) -> None:
        self._changed.set()
