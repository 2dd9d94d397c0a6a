"""Waits for something to change in the directories that a device source names, or for time to pass."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from asyncinotify import Inotify, Mask

_MASK = Mask.CREATE | Mask.DELETE | Mask.MOVE | Mask.CLOSE_WRITE | Mask.ONLYDIR

QUIET_SECONDS = 0.2
"""Events come in swarms (a driver being bound); the look is taken once they have ended."""
LONGEST_SWARM_SECONDS = 2.0


class ChangeWatch:
    """A hint only: where inotify cannot be had or sends nothing (sysfs), the time limit is what counts."""

    def __init__(self) -> None:
        self._inotify: Inotify | None = None
        self._followed: set[Path] = set()

    def __enter__(self) -> Self:
        with suppress(OSError):
            self._inotify = Inotify()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._inotify is not None:
            self._inotify.close()
            self._inotify = None

    def follow(self, directories: Iterable[Path]) -> None:
        """Follow these directories too; ones that are gone have to be named again when they are back."""
        if self._inotify is None:
            return
        wanted = set(directories)
        for directory in wanted - self._followed:
            with suppress(OSError):
                self._inotify.add_watch(directory, _MASK)
        self._followed = {directory for directory in wanted if directory.is_dir()}

    async def wait(self, timeout_seconds: float) -> None:
        """Return once the directories are quiet again after a change, at the latest after the time limit."""
        if self._inotify is None:
            await asyncio.sleep(timeout_seconds)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._inotify.get()
            async with asyncio.timeout(LONGEST_SWARM_SECONDS):
                while True:
                    async with asyncio.timeout(QUIET_SECONDS):
                        await self._inotify.get()
