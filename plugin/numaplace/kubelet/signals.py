"""One-to-many wake-ups on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


class Signal:
    """Wakes every waiter at once. A waiter tests its own condition, so no wake-up is lost."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def notify(self) -> None:
        """Wake all who wait now."""
        event, self._event = self._event, asyncio.Event()
        event.set()

    async def wait(self) -> None:
        """Return after the next wake-up."""
        await self._event.wait()

    async def until(self, condition: Callable[[], _T | None]) -> _T:
        """Return the first value other than ``None`` that the condition gives: now, or after a wake-up."""
        while (value := condition()) is None:
            await self.wait()
        return value
