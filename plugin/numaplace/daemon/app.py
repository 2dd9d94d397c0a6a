"""The daemon: from a configuration to servers, and what signals do to it.

SIGTERM and SIGINT end it: streams end without an empty list, sockets are removed. SIGHUP loads the
configuration again: a refused one changes nothing; of an accepted one, strategies, weights, deadlines and
resources are changed in place, and anything about sockets, host roots or the HTTP address by a new start.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from enum import StrEnum

from numaplace import __version__
from numaplace.config.load import Loaded
from numaplace.daemon.logs import EventLog, setup_logs
from numaplace.daemon.node import Node
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


async def serve(load: Load) -> int:
    """Run the daemon until a signal ends it; return the exit code.

    ``load`` reads the configuration; its ``InputError`` at the start is the caller's to report.
    """
    loaded = load()
    log = setup_logs()
    metrics = Metrics(version=__version__, clock=time.monotonic)
    requests = _signal_requests()
    log.info("starting", version=__version__)
    while True:
        for warning in loaded.warnings:
            log.warning("configuration", warning=warning)
        node = Node(loaded.config, metrics=metrics, log=log, clock=time.monotonic)
        async with node.running():
            following = await _follow_requests(requests, node, load, log=log, metrics=metrics)
        if following is None:
            log.info("stopped")
            return 0
        log.info("starting again with a changed configuration")
        loaded = following


def _signal_requests() -> asyncio.Queue[Request]:
    requests: asyncio.Queue[Request] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for number, request in _SIGNALS.items():
        loop.add_signal_handler(number, requests.put_nowait, request)
    return requests


async def _follow_requests(
    requests: asyncio.Queue[Request], node: Node, load: Load, *, log: EventLog, metrics: Metrics
) -> Loaded | None:
    """Serve reloads in place; return the configuration that needs a new start, ``None`` to stop."""
    while await requests.get() is not Request.STOP:
        try:
            loaded = await asyncio.to_thread(load)
            applied = await node.apply(loaded.config)
        except InputError as refused:
            metrics.reloaded(ReloadResult.REFUSED)
            log.error("reload refused; the running configuration stays", problems=str(refused).splitlines())
            continue
        metrics.reloaded(ReloadResult.ACCEPTED)
        if not applied:
            return loaded
        for warning in loaded.warnings:
            log.warning("configuration", warning=warning)
        log.info("reloaded", resources=[resource.name for resource in loaded.config.resources])
    return None
