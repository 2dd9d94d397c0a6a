"""The daemon: from a configuration to servers, and what signals do to it.

SIGTERM and SIGINT end it: streams end without an empty list, sockets are removed. SIGHUP loads the
configuration again: a refused one changes nothing; of an accepted one, strategies, weights, deadlines and
resources are changed in place, and anything about sockets, host roots, the API server or the HTTP address by
a new start. If that fails (the HTTP port is taken), the daemon goes back to the configuration that it had.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from numaplace import __version__
from numaplace.config.load import Loaded
from numaplace.daemon.node import Node
from numaplace.daemon.runtime.logs import EventLog, logging_to
from numaplace.daemon.steering.suspension import BreakerBox
from numaplace.errors import InputError
from numaplace.metrics.labels import ReloadResult
from numaplace.metrics.metrics import Metrics
from numaplace.threads import in_thread

Load = Callable[[], Loaded]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Signals:
    """What signals requested. Several SIGHUPs during a reload are one more reload; an end comes first."""

    stop: asyncio.Event = field(default_factory=asyncio.Event)
    reload: asyncio.Event = field(default_factory=asyncio.Event)

    async def reload_wanted(self) -> bool:
        wanted = await self.unless_stopped(asyncio.ensure_future(self.reload.wait()))
        self.reload.clear()
        return wanted is not None

    async def unless_stopped(self, future: asyncio.Future[_T]) -> _T | None:
        """Return the future's result; ``None`` if an end is requested before; the future is cancelled."""
        stop = asyncio.create_task(self.stop.wait())
        try:
            waiting: set[asyncio.Future[Any]] = {future, stop}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            return None if stop.done() else future.result()
        finally:
            stop.cancel()
            future.cancel()


async def serve(load: Load, *, env: Mapping[str, str] | None = None) -> int:
    """Run the daemon until a signal ends it; return the exit code.

    ``load`` reads the configuration; its ``InputError`` at the start, and that of an address or directory
    that cannot be used, are the caller's to report. ``env`` are the environment variables, the process's if
    not given.
    """
    loaded = load()
    with logging_to() as log, _signals() as signals:
        log.info("starting", version=__version__)
        metrics = Metrics(version=__version__, clock=time.monotonic)
        await _Daemon(load, signals, log=log, metrics=metrics, env=os.environ if env is None else env).run(
            loaded
        )
        log.info("stopped")
    return 0


@contextmanager
def _signals() -> Iterator[Signals]:
    signals = Signals()
    loop = asyncio.get_running_loop()
    events = {
        signal.SIGTERM: signals.stop,
        signal.SIGINT: signals.stop,
        signal.SIGHUP: signals.reload,
    }
    for number, event in events.items():
        loop.add_signal_handler(number, event.set)
    try:
        yield signals
    finally:
        for number in events:
            loop.remove_signal_handler(number)


@dataclass(frozen=True, slots=True)
class _Daemon:
    load: Load
    signals: Signals
    log: EventLog
    metrics: Metrics
    env: Mapping[str, str]
    box: BreakerBox = field(default_factory=BreakerBox)

    async def run(self, loaded: Loaded) -> None:
        """Serve, with a new node for each configuration that needs one, until the end is requested."""
        former: Loaded | None = None
        while True:
            try:
                served, following = await self._run_node(loaded, former)
            except InputError as error:
                if former is None:
                    raise
                self._refused(error)
                loaded, former = former, None
                continue
            if following is None:
                return
            self.log.info("starting again with a changed configuration")
            loaded, former = following, served

    async def _run_node(self, loaded: Loaded, former: Loaded | None) -> tuple[Loaded, Loaded | None]:
        """Return what was served at the end and what has to follow; ``InputError`` if it cannot be served."""
        node = Node(
            loaded.config,
            metrics=self.metrics,
            log=self.log,
            clock=time.monotonic,
            env=self.env,
            box=self.box,
        )
        async with node.running():
            if former is None:
                self._warn(loaded)
            else:
                self._accepted(loaded)
                gone = {one.name for one in former.config.resources}
                for name in gone.difference(one.name for one in loaded.config.resources):
                    self.metrics.forget(name)
            return await self._follow_requests(node, loaded)

    async def _follow_requests(self, node: Node, served: Loaded) -> tuple[Loaded, Loaded | None]:
        """Serve reloads in place until one needs a new start, or until the end is requested (``None``)."""
        while await self.signals.reload_wanted():
            try:
                # A file that hangs must not hold up the end.
                loaded = await self.signals.unless_stopped(in_thread(self.load, name="configuration"))
                if loaded is None:
                    break
                applied = await node.apply(loaded.config)
            except InputError as error:
                self._refused(error)
                continue
            if not applied:
                return served, loaded
            served = loaded
            self._accepted(loaded)
        return served, None

    def _accepted(self, loaded: Loaded) -> None:
        self.metrics.reloaded(ReloadResult.ACCEPTED)
        self._warn(loaded)
        self.log.info("reloaded", resources=[resource.name for resource in loaded.config.resources])

    def _refused(self, error: InputError) -> None:
        self.metrics.reloaded(ReloadResult.REFUSED)
        self.log.error(
            "reload refused; the old configuration stays in effect", problems=str(error).splitlines()
        )

    def _warn(self, loaded: Loaded) -> None:
        for warning in loaded.warnings:
            self.log.warning("configuration", warning=warning)
