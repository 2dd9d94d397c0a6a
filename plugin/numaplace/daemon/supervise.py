"""Keeps a task running for ever: a crash is logged and counted, and it starts again after a back-off."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from numaplace.daemon.logs import EventLog

FIRST_BACKOFF_SECONDS = 0.5
LONGEST_BACKOFF_SECONDS = 30.0
HEALTHY_AFTER_SECONDS = 60.0
"""A run at least this long starts the back-off anew."""


async def supervise(
    name: str, run: Callable[[], Awaitable[None]], *, log: EventLog, restarted: Callable[[str], None]
) -> None:
    """Run ``run()`` again and again until cancelled; a normal return counts as an end too.

    ``restarted(name)`` is told of each restart. An exception never leaves this function.
    """
    clock = asyncio.get_running_loop().time
    backoff = FIRST_BACKOFF_SECONDS
    while True:
        started = clock()
        try:
            await run()
            log.error("task ended", task=name)
        except Exception as exc:  # noqa: BLE001 - the daemon outlives any of its tasks
            log.error("task failed", exc=exc, task=name)
        if clock() - started >= HEALTHY_AFTER_SECONDS:
            backoff = FIRST_BACKOFF_SECONDS
        restarted(name)
        await asyncio.sleep(backoff)
        backoff = min(backoff * 2, LONGEST_BACKOFF_SECONDS)
