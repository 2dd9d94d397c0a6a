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
from enum import StrEnum

from numaplace import __version__
from numaplace.config.load import Loaded
from numaplace.daemon.node import Node
from numaplace.daemon.runtime.logs import EventLog, logging_to
from numaplace.daemon.steering.suspension import BreakerBox
from numaplace.errors import InputError
from numaplace.metrics.labels import ReloadResult
from numaplace.metrics.metrics import Metrics

Load = Callable[[], Loaded]


class Request(StrEnum):
    """What a signal asks for."""

    STOP = "stop"
    RELOAD = "reload"


_SIGNALS = {
    signal.SIGTERM: Request.STOP,
    signal.SIGINT: Request.STOP,
    signal.SIGHUP: Request.RELOAD,
}


async def serve(load: Load, *, env: Mapping[str, str] | None = None) -> int:
    """Run the daemon until a signal ends it; return the exit code.

    ``load`` reads the configuration; its ``InputError`` at the start, and that of an address or directory
    that cannot be used, are the caller's to report. ``env`` are the environment variables, the process's if
    not given.
    """
    loaded = load()
    with logging_to() as log, _signal_requests() as requests:
        log.info("starting", version=__version__)
        metrics = Metrics(version=__version__, clock=time.monotonic)
        await _Daemon(load, requests, log=log, metrics=metrics, env=os.environ if env is None else env).run(
            loaded
        )
        log.info("stopped")
    return 0


@contextmanager
def _signal_requests() -> Iterator[asyncio.Queue[Request]]:
    requests: asyncio.Queue[Request] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for number, request in _SIGNALS.items():
        loop.add_signal_handler(number, requests.put_nowait, request)
    try:
        yield requests
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


@dataclass(frozen=True, slots=True)
class _Daemon:
    load: Load
    requests: asyncio.Queue[Request]
    log: EventLog
    metrics: Metrics
    env: Mapping[str, str]
    box: BreakerBox = field(default_factory=BreakerBox)

    async def run(self, loaded: Loaded) -> None:
        """Serve, with a new node for each configuration that needs one, until told to stop."""
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
        """Serve reloads in place until one needs a new start, or until told to stop (``None``)."""
        while await self.requests.get() is not Request.STOP:
            try:
                loaded = await asyncio.to_thread(self.load)
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
        self.log.error("reload refused; the running configuration stays", problems=str(error).splitlines())

    def _warn(self, loaded: Loaded) -> None:
        for warning in loaded.warnings:
            self.log.warning("configuration", warning=warning)
