"""A start that is cancelled leaves nothing running."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import count
from pathlib import Path

from numaplace.kubelet.emulator import EmulatedNode, KubeletEmulator


async def test_a_start_can_be_cancelled_at_any_point(root: Path, machine: EmulatedNode) -> None:
    kubelet = KubeletEmulator(root, machine)
    for steps in count():
        starting = asyncio.create_task(kubelet.start())
        for _ in range(steps):
            await asyncio.sleep(0)
        if starting.done():
            break
        starting.cancel()
        with suppress(asyncio.CancelledError):
            await starting
        assert not kubelet.running
        assert asyncio.all_tasks() == {asyncio.current_task()}, f"after {steps} steps"
    assert kubelet.running, "it can still be started"
    await kubelet.stop()
