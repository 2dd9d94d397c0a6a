"""Calls that hang: each is left behind, up to a limit."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from typing import Any

import pytest
from daemon_site import until
from numaplace.threads import MAX_LEFT_BEHIND, in_thread, within


async def test_calls_that_hang_are_bounded() -> None:
    release = threading.Event()
    try:
        for _ in range(MAX_LEFT_BEHIND):
            in_thread(release.wait, name="hangs").cancel()
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError, match="hangs: 16 earlier calls still hang"):
            await in_thread(release.wait, name="hangs")
        assert await in_thread(lambda: 1, name="works") == 1
    finally:
        release.set()
    await until(lambda: not any("hangs" in thread.name for thread in threading.enumerate()))
    assert await in_thread(lambda: 2, name="hangs") == 2


async def test_many_calls_at_once_that_work_are_not_refused() -> None:
    release = threading.Event()
    calls = [in_thread(release.wait, name="busy") for _ in range(2 * MAX_LEFT_BEHIND)]
    release.set()
    assert all(await asyncio.gather(*calls))


async def test_a_failure_is_not_reported_when_whoever_waits_was_cancelled_in_the_same_moment() -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    call = in_thread(lambda: 1 // 0, name="fails")
    waiting = asyncio.ensure_future(asyncio.wait({call}))
    await asyncio.wait({call})
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    gone = weakref.ref(call)
    del call, waiting
    await until(lambda: gc.collect() >= 0 and gone() is None)
    assert not reported


def test_a_call_with_a_limit() -> None:
    release = threading.Event()
    with pytest.raises(TimeoutError):
        within(release.wait, name="hangs", timeout_seconds=0.01)
    release.set()
    with pytest.raises(ZeroDivisionError):
        within(lambda: 1 // 0, name="fails", timeout_seconds=10)
