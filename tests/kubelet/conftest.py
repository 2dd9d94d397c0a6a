from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from kubelet_side import KubeletSide, PodResourcesSide


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """A folder whose path leaves room for a socket name, which pytest's tmp_path may not."""
    path = Path(tempfile.mkdtemp(prefix="np-", dir="/tmp"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


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
