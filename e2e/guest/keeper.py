"""Keeps a guest's console and the logs inside it when a test fails."""

from __future__ import annotations

import contextlib
import http.client
from collections.abc import Iterator
from pathlib import Path

from guest.client import Agent
from harness.logs import LogKeeper

LOG_FOLDER = "/run/log"
NAMES = ("containerd", "kubelet", "numaplace")


def log_path(name: str) -> str:
    """The path of a log in the guest."""
    return f"{LOG_FOLDER}/{name}.log"


class GuestLogs(LogKeeper):
    """As ``LogKeeper``, with logs that have to be fetched first."""

    def __init__(self, kept: Path) -> None:
        super().__init__(kept)
        self._guests: dict[Path, Agent] = {}

    @contextlib.contextmanager
    def following(self, agent: Agent, folder: Path) -> Iterator[None]:
        """Keep the guest's logs, too; ``folder`` takes them on the way."""
        agent.run("mkdir", "-p", LOG_FOLDER)
        self._guests[folder] = agent
        try:
            with contextlib.ExitStack() as stack:
                for name in NAMES:
                    stack.enter_context(self.watching(name, folder / f"{name}.log"))
                yield
        finally:
            del self._guests[folder]

    def keep(self, test: str) -> list[tuple[Path, str]]:
        for folder, agent in self._guests.items():
            # A guest that hangs shows that on its console.
            with contextlib.suppress(OSError, http.client.HTTPException, AssertionError):
                for name in NAMES:
                    (folder / f"{name}.log").write_text(agent.read(log_path(name)))
        return super().keep(test)
