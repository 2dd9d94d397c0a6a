"""Waits until the emulator is in a state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Changes:
    """Wakes those that wait for a condition each time that something may have changed."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def notify(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    async def wait_for(
        self, condition: Callable[[], bool], *, timeout_seconds: float, describe: Callable[[], str]
    ) -> None:
        """Return when the condition holds; ``TimeoutError`` with the description if it does not in time."""
        try:
            async with asyncio.timeout(timeout_seconds):
                while not condition():
                    await self._event.wait()
        except TimeoutError:
            raise TimeoutError(f"after {timeout_seconds} s: {describe()}") from None
