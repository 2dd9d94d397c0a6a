"""The real daemon as a child process, with its log read line by line."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from numaplace.errors import PeerError

LogLine = Mapping[str, object]

STOP_SECONDS = 5.0


class DaemonProcess:
    """A running ``numaplace run``; ``lines`` holds its log so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._grown = asyncio.Condition()
        self._ended = False
        self.lines: list[LogLine] = []
        self.noise: list[str] = []

    async def wait_line(
        self, wanted: Callable[[LogLine], bool], *, since: int = 0, timeout_seconds: float | None
    ) -> LogLine:
        """Return the first wanted log line after the first ``since`` lines; ``PeerError`` if none comes.

        Without a timeout it waits until the daemon ends.
        """

        async def found() -> LogLine:
            seen = since
            async with self._grown:
                while True:
                    for line in self.lines[seen:]:
                        if wanted(line):
                            return line
                    seen = len(self.lines)
                    if self._ended:
                        raise PeerError("the daemon ended: " + "\n".join(self.noise or ["without output"]))
                    await self._grown.wait()

        try:
            return await asyncio.wait_for(found(), timeout_seconds)
        except TimeoutError:
            raise PeerError(f"the daemon did not log the expected entry within {timeout_seconds} s") from None

    async def read_log(self) -> None:
        stream = self._process.stderr
        while stream is not None and (raw := await stream.readline()):
            text = raw.decode(errors="replace").rstrip("\n")
            async with self._grown:
                with contextlib.suppress(ValueError):
                    self.lines.append(json.loads(text))
                    text = ""
                if text:
                    self.noise.append(text)
                self._grown.notify_all()
        async with self._grown:
            self._ended = True
            self._grown.notify_all()

    def send(self, number: signal.Signals) -> None:
        # Not ``Process.send_signal``: that of Python 3.11 polls whether the child has ended, which takes
        # the exit code away from asyncio's own wait (python/cpython#87744).
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    async def stop(self) -> int:
        """Send SIGTERM, and SIGKILL if that takes too long; return the exit code."""
        self.send(signal.SIGTERM)
        try:
            return await asyncio.wait_for(self._process.wait(), STOP_SECONDS)
        except TimeoutError:
            self.send(signal.SIGKILL)
            return await self._process.wait()

    async def ended(self) -> int:
        """Wait for the daemon's end; return its exit code, negative for a signal."""
        return await self._process.wait()


@asynccontextmanager
async def running_daemon(config: Path) -> AsyncIterator[DaemonProcess]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("NUMAPLACE_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "numaplace",
        "run",
        "--config",
        str(config),
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    daemon = DaemonProcess(process)
    reading = asyncio.create_task(daemon.read_log())
    try:
        yield daemon
    finally:
        try:
            await daemon.stop()
        finally:
            # Still running if the stop was cancelled.
            daemon.send(signal.SIGKILL)
            await daemon.ended()
            await reading
