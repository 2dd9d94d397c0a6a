"""Watching a device-plugin directory: the kubelet comes, goes and restarts, and deletes our sockets.

inotify wakes at once; a look every second covers what inotify cannot see: limits reached
(``fs.inotify.max_user_instances``, ``max_user_watches``), a directory that does not exist yet or was
replaced, network file systems. Either only wakes the waiters, who look at the files themselves and compare
with what they have already acted on; so late, repeated and lost events do no harm.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from asyncinotify import Event, Inotify, Mask

from numaplace.kubelet.signals import Signal
from numaplace.kubelet.sockets import SocketIdentity, socket_identity

KUBELET_SOCKET = "kubelet.sock"

_MASK = Mask.CREATE | Mask.DELETE | Mask.MOVE | Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.ONLYDIR
_DIRECTORY_GONE = Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.IGNORED | Mask.UNMOUNT

_T = TypeVar("_T")


class SocketWatch:
    """One watcher of a directory, shared by all resources. Nothing wakes unless ``run`` is running.

    ``on_degraded`` is told once, with the reason, when only the look every ``poll_seconds`` is left.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        kubelet_socket: str = KUBELET_SOCKET,
        poll_seconds: float = 1.0,
        on_degraded: Callable[[str], None],
        inotify: Callable[[], Inotify] = Inotify,
    ) -> None:
        self.directory = Path(directory)
        self.kubelet_path = self.directory / kubelet_socket
        self._poll_seconds = poll_seconds
        self._on_degraded = on_degraded
        self._inotify = inotify
        self._changed = Signal()
        self._polled = Signal()

    def kubelet(self) -> SocketIdentity | None:
        """Return which registration socket is there now; ``None`` without one."""
        return socket_identity(self.kubelet_path)

    def notify(self) -> None:
        """Make all waiters look again."""
        self._changed.notify()

    async def until(self, condition: Callable[[], _T | None]) -> _T:
        """Return the first value other than ``None`` of the condition, tried now and whenever things change.

        It is tried at least every ``poll_seconds``, so it may depend on time; it should cost a few ``stat``.
        """
        return await self._changed.until(condition)

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._poll(), name="socket-watch-poll")
            tasks.create_task(self._follow(), name="socket-watch-inotify")

    async def _poll(self) -> None:
        while True:
            self._polled.notify()
            self._changed.notify()
            await asyncio.sleep(self._poll_seconds)

    async def _follow(self) -> None:
        """Follow inotify for as long as it can be had, and again when the directory comes back."""
        while True:
            try:
                with self._inotify() as inotify:
                    inotify.add_watch(self.directory, _MASK)
                    await self._forward(inotify)
            except (FileNotFoundError, NotADirectoryError):
                pass
            except OSError as error:
                self._on_degraded(f"inotify on {self.directory}: {error.strerror or error}")
                return
            await self._polled.wait()

    async def _forward(self, inotify: Inotify) -> None:
        """Wake the waiters for each event about a socket, until the directory itself is gone."""
        self.notify()
        gone = False
        while not gone:
            event = await inotify.get()
            gone = bool(event.mask & _DIRECTORY_GONE)
            if gone or self._concerns_socket(event):
                self.notify()

    def _concerns_socket(self, event: Event) -> bool:
        """Leave out the kubelet's checkpoint, which it rewrites here at every allocation."""
        return event.name is None or event.name.suffix == ".sock" or event.name.name == self.kubelet_path.name
