"""Calls that hang: each is left behind, up to a limit."""

from __future__ import annotations

import asyncio
import threading

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


def test_a_call_with_a_limit() -> None:
    release = threading.Event()
    with pytest.raises(TimeoutError):
        within(release.wait, name="hangs", timeout_seconds=0.01)
    release.set()
    with pytest.raises(ZeroDivisionError):
        within(lambda: 1 // 0, name="fails", timeout_seconds=10)
