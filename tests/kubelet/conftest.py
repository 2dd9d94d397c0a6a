from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kubelet_side import KubeletSide, PodResourcesSide


@pytest.fixture
def short_dir(root: Path) -> Path:
    return root


@pytest.fixture
async def kubelet(short_dir: Path) -> AsyncIterator[KubeletSide]:
    """A kubelet that is running."""
    side = KubeletSide(short_dir)
    await side.start()
    yield side
    await side.stop()


@pytest.fixture
async def podresources(short_dir: Path) -> AsyncIterator[PodResourcesSide]:
    """A PodResources server that is running."""
    side = PodResourcesSide(short_dir / "pr.sock")
    await side.start()
    yield side
    await side.stop()
