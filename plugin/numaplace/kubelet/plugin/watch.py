"""Watching a device-plugin directory: the kubelet comes, goes and restarts, and deletes our sockets.

inotify wakes at once; a check every second covers what it cannot see. Either only wakes the waiters, who read
the files themselves and compare with what they have already acted on.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from numaplace.kubelet.directories import DirectoryWatch
from numaplace.kubelet.signals import Signal
from numaplace.kubelet.sockets import SocketIdentity, socket_identity

KUBELET_SOCKET = "kubelet.sock"

_T = TypeVar("_T")


class SocketWatch:
    """One watcher of a directory, shared by all resources. Nothing wakes unless ``run`` is running."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        directories: DirectoryWatch,
        *,
        kubelet_socket: str = KUBELET_SOCKET,
        poll_seconds: float = 1.0,
    ) -> None:
        self.directory = Path(directory)
        self.kubelet_path = self.directory / kubelet_socket
        self._directories = directories
        self._poll_seconds = poll_seconds
        self._changed = Signal()

    def kubelet(self) -> SocketIdentity | None:
        return socket_identity(self.kubelet_path)

    def notify(self) -> None:
        self._changed.notify()

    async def until(self, condition: Callable[[], _T | None]) -> _T:
        """Return the first value other than ``None`` of the condition, tried now and whenever things change.

        It is tried at least every ``poll_seconds``, so it may depend on time; it should cost a few ``stat``.
        """
        return await self._changed.until(condition)

    async def run(self) -> None:
        while True:
            self._directories.follow(self.directory, self._file_changed)
            self.notify()
            await asyncio.sleep(self._poll_seconds)

    def _file_changed(self, name: str) -> None:
        """Wake for sockets only: the kubelet rewrites its checkpoint here at every allocation."""
        if not name or name.endswith(".sock") or name == self.kubelet_path.name:
            self.notify()
