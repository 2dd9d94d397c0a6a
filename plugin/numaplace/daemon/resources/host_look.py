"""Scans of the host for one source, one at a time, each in a thread that is never waited for."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from numaplace.devices.files import noting_trouble
from numaplace.devices.scan import Scan, Source
from numaplace.model.names import ResourceName
from numaplace.threads import in_thread

LOOK_LIMIT_SECONDS = 30.0
"""A scan takes milliseconds. A longer one counts as failed; the next one takes its result."""


@dataclass(frozen=True, slots=True)
class Look:
    """The result of a scan.

    ``trouble`` is what could not be read that may be there, and why: out of file descriptors or memory, no
    permission, an I/O error. ``watch_paths`` are those of ``Source``.
    """

    scan: Scan
    watch_paths: tuple[Path, ...] = ()
    trouble: tuple[str, ...] = ()


class HostLook:
    """Scans when called, never twice at a time."""

    def __init__(self, source: Source, resource: ResourceName) -> None:
        self._source = source
        self._thread = f"look {resource}"
        self._running: asyncio.Future[Look] | None = None

    async def take(self) -> Look:
        """Scan; ``TimeoutError`` if that takes too long. The source's exceptions are passed on."""
        if self._running is None:
            self._running = in_thread(self._look, name=self._thread)
        running = self._running
        await asyncio.wait({running}, timeout=LOOK_LIMIT_SECONDS)
        if not running.done():
            raise TimeoutError
        self._running = None
        return running.result()

    def give_up(self) -> None:
        if self._running is not None:
            self._running.cancel()
            self._running = None

    def _look(self) -> Look:
        with noting_trouble() as trouble:
            return Look(self._source.scan(), self._source.watch_paths, tuple(trouble))
