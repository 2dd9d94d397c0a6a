"""Tasks outlive their failures."""

from __future__ import annotations

import asyncio

import pytest
from daemon_site import RecordedLog, until
from numaplace.daemon.runtime.supervise import supervise


class Task:
    """Ends in one way after the other, then runs for ever."""

    def __init__(self, *ends: BaseException | None) -> None:
        self.ends = list(ends)
        self.restarts: list[str] = []
        self.log = RecordedLog()

    async def run(self) -> None:
        if not self.ends:
            await asyncio.Event().wait()
        end = self.ends.pop(0)
        if end is not None:
            raise end

    def start(self) -> asyncio.Task[None]:
        return asyncio.create_task(
            supervise(
                "poller", self.run, log=self.log, restarted=self.restarts.append, first_backoff_seconds=0.001
            )
        )


@pytest.mark.parametrize(
    "end",
    [None, ValueError("x"), ExceptionGroup("several", [OSError(24, "too many open files")]),
     asyncio.CancelledError()],
    ids=lambda end: type(end).__name__,
)  # fmt: skip
async def test_whatever_ends_it_it_starts_again(end: BaseException | None) -> None:
    """A CancelledError that nobody asked for comes from a closed gRPC channel."""
    task = Task(end, end)
    running = task.start()
    await until(lambda: not task.ends)
    await until(lambda: len(task.restarts) == 2)
    assert task.restarts == ["poller", "poller"]
    assert [line["task"] for line in task.log.troubles] == ["poller", "poller"]
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_failures_become_rarer() -> None:
    task = Task(*[ValueError("again")] * 1000)
    running = task.start()
    await until(lambda: len(task.restarts) >= 5)
    assert len(task.restarts) < 12, "not a busy loop"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
