"""Blocking calls in threads that are never waited for: a read of the host may hang in the kernel for ever.

``asyncio.to_thread`` has few threads for the whole process, and the end of the process waits for them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

_T = TypeVar("_T")


def in_thread(function: Callable[[], _T], *, name: str) -> asyncio.Future[_T]:
    """Run the function in a daemon thread of its own; the future has what it returns or raises.

    A cancelled future leaves the thread behind.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

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

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


def threads_named(name: str) -> int:
    return sum(thread.name == name for thread in threading.enumerate())
