"""Keeps a task running: a crash is logged and counted, and the task starts again after a back-off."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from numaplace.daemon.runtime.logs import EventLog
from numaplace.model.pacing import Backoff

FIRST_BACKOFF_SECONDS = 0.5
LONGEST_BACKOFF_SECONDS = 30.0
HEALTHY_AFTER_SECONDS = 60.0
"""A run of at least this length resets the back-off."""


async def supervise(
    task: str,
    run: Callable[[], Awaitable[None]],
    *,
    log: EventLog,
    restarted: Callable[[str], None],
    first_backoff_seconds: float = FIRST_BACKOFF_SECONDS,
    resource: str | None = None,
) -> None:
    """Run ``run()`` again and again until cancelled; a normal return counts as an end too.

    ``restarted(task)`` is called at each restart. Only our own cancellation leaves this function: grpcio
    raises ``CancelledError`` for a closed channel as well.
    """
    clock = asyncio.get_running_loop().time
    backoff = Backoff(first_seconds=first_backoff_seconds, longest_seconds=LONGEST_BACKOFF_SECONDS)
    while True:
        started = clock()
        try:
            await run()
            log.error("task ended", task=task, resource=resource)
        except asyncio.CancelledError as exc:
            current = asyncio.current_task()
            if current is None or current.cancelling():
                raise
            log.error("task failed", exc=exc, task=task, resource=resource)
        except Exception as exc:  # noqa: BLE001 - the daemon outlives any of its tasks
            log.error("task failed", exc=exc, task=task, resource=resource)
        if clock() - started >= HEALTHY_AFTER_SECONDS:
            backoff.reset()
        restarted(task)
        await asyncio.sleep(backoff.pause())
