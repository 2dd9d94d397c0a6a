"""Calls back when something changes in a directory: one inotify instance, however many follow.

A hint only. inotify may be at its limits (``fs.inotify.max_user_instances``, ``max_user_watches``), and some
file systems send no events (sysfs, network file systems). So who follows a directory looks by itself now and
then, too; late, repeated and lost events do no harm.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from asyncinotify import Event, Inotify, Mask, Watch

_MASK = (
    Mask.CREATE | Mask.DELETE | Mask.MOVE | Mask.CLOSE_WRITE
    | Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.ONLYDIR
)  # fmt: skip
_GONE = Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.IGNORED | Mask.UNMOUNT

RETRY_SECONDS = 60.0
"""Time to the next attempt where no inotify instance could be had."""

Changed = Callable[[str], None]
"""Gets the name of the file that has changed; empty: the directory itself, or it is not known what."""


@dataclass(slots=True)
class _Watched:
    """A watch, and the paths that lead to its directory."""

    watch: Watch
    paths: set[Path] = field(default_factory=set)


class DirectoryWatch:
    """Calls back while ``run`` runs. Without inotify, ``on_degraded`` is called once, with the reason.

    ``on_restored`` is called when all directories are followed after that.
    """

    def __init__(
        self,
        *,
        on_degraded: Callable[[str], None],
        on_restored: Callable[[], None] = lambda: None,
        inotify: Callable[[], Inotify] = Inotify,
    ) -> None:
        self._on_degraded = on_degraded
        self._on_restored = on_restored
        self._degraded = False
        self._make = inotify
        self._inotify: Inotify | None = None
        self._followers: dict[Path, set[Changed]] = {}
        self._watched: dict[int, _Watched] = {}

    def follow(self, directory: Path, changed: Changed) -> None:
        """Call back from now on. Repeat it now and then: the directory may appear later, or be replaced."""
        self._followers.setdefault(directory, set()).add(changed)
        if self._inotify is not None:
            self._add(self._inotify, directory)

    def unfollow(self, directory: Path, changed: Changed) -> None:
        """Call back no more."""
        followers = self._followers.get(directory, set())
        followers.discard(changed)
        if not followers:
            self._followers.pop(directory, None)
            for number, one in tuple(self._watched.items()):
                one.paths.discard(directory)
                if not one.paths:
                    self._drop(number)

    async def run(self) -> None:
        """Call back until cancelled."""
        while True:
            try:
                with self._make() as self._inotify:
                    degraded, self._degraded = self._degraded, False
                    for directory in tuple(self._followers):
                        self._add(self._inotify, directory)
                    if degraded and not self._degraded:
                        self._on_restored()
                    self._tell(self._followers, "")
                    while True:
                        self._take(await self._inotify.get())
            except OSError as error:
                self._failed(f"inotify: {error.strerror or error}")
            finally:
                self._inotify = None
                self._watched.clear()
            await asyncio.sleep(RETRY_SECONDS)

    def _add(self, inotify: Inotify, directory: Path) -> None:
        if any(directory in one.paths for one in self._watched.values()):
            return
        try:
            watch = inotify.add_watch(directory, _MASK)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            self._failed(f"inotify on {directory}: {error.strerror or error}")
            return
        self._watched.setdefault(watch.wd, _Watched(watch)).paths.add(directory)

    def _take(self, event: Event) -> None:
        if event.watch is None:
            # Events were lost.
            self._tell(self._followers, "")
            return
        number = event.watch.wd
        if (one := self._watched.get(number)) is None:
            return
        if gone := event.mask & _GONE:
            self._drop(number)
        if event.mask & Mask.CLOSE_WRITE and any(_is_special(path, event) for path in one.paths):
            return
        self._tell(one.paths, "" if gone or event.name is None else event.name.name)

    def _drop(self, number: int) -> None:
        """Forget a watch; one of a directory that was moved away would follow it there."""
        one = self._watched.pop(number)
        if self._inotify is not None:
            with suppress(OSError):
                self._inotify.rm_watch(one.watch)

    def _tell(self, directories: Iterable[Path], name: str) -> None:
        for directory in tuple(directories):
            for changed in tuple(self._followers.get(directory, ())):
                changed(name)

    def _failed(self, reason: str) -> None:
        if not self._degraded:
            self._degraded = True
            self._on_degraded(reason)


def _is_special(directory: Path, event: Event) -> bool:
    """Return whether it is a device, a pipe or a socket: writing does not change one (``/dev/null``)."""
    try:
        mode = os.lstat(directory / (event.name or "")).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode)
