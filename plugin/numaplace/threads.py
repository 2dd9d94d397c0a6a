"""Blocking calls in threads that are left behind when they hang: reads of the host, programs.

``asyncio.to_thread`` has few threads for the whole process, and the end of the process waits for them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TypeVar

MAX_LEFT_BEHIND = 16
_LEFT_BEHIND = "left behind: "

_T = TypeVar("_T")


def in_thread(function: Callable[[], _T], *, name: str) -> asyncio.Future[_T]:
    """Run the function in a daemon thread of its own; the future has what it returns or raises.

    A cancelled future leaves the thread behind. With ``MAX_LEFT_BEHIND`` threads of this name that still run,
    the function is not called, and the future has a ``TimeoutError``.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()
    hanging = sum(thread.name == _LEFT_BEHIND + name for thread in threading.enumerate())
    if hanging >= MAX_LEFT_BEHIND:
        future.set_exception(TimeoutError(f"{name}: {hanging} earlier calls still hang"))
        return future

    def settle(call: Callable[[], None]) -> None:
        if not future.done():
            call()

    def run() -> None:
        try:
            call = partial(future.set_result, function())
        except BaseException as exc:  # noqa: BLE001 - it is the caller's
            call = partial(future.set_exception, exc)
        # A loop that is closed waits for nothing any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, call)

    def done(_: asyncio.Future[_T]) -> None:
        if future.cancelled():
            thread.name = _LEFT_BEHIND + name
        else:
            # Whoever waits may have been cancelled in the same moment: nobody looks then.
            future.exception()

    thread = threading.Thread(target=run, name=name, daemon=True)
    future.add_done_callback(done)
    thread.start()
    return future


def within(function: Callable[[], _T], *, name: str, timeout_seconds: float) -> _T:
    """Return what the function returns, or raise what it raises; a ``TimeoutError`` leaves it behind."""
    future: Future[_T] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as exc:  # noqa: BLE001 - it is the caller's
            future.set_exception(exc)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future.result(timeout_seconds)
