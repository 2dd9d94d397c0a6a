"""A child process with a log, that cannot outlive the tests."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class Process:
    """One command. Output is appended to ``log``; the kernel kills it if the test process dies.

    ``env`` replaces the environment; without it the child has ours.
    """

    def __init__(self, command: Sequence[str], log: Path, *, env: Mapping[str, str] | None = None) -> None:
        self.log = log
        with log.open("ab") as out:
            self._popen = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=env,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; minus the signal's number if a signal ended it."""
        return self._popen.poll()

    def signal(self, number: signal.Signals) -> None:
        self._popen.send_signal(number)

    def kill(self) -> None:
        """End it and all its children at once (SIGKILL)."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait()

    def stop(self, *, limit_seconds: float = 10.0) -> int:
        """Ask it to end (SIGTERM), kill it after the limit; return its exit code."""
        self._popen.terminate()
        try:
            code = self._popen.wait(limit_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self._popen.wait()
        self.kill()
        return code
