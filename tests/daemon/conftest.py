from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from daemon_site import Site, build_site
from numaplace.cluster.fake import FakeApiServer


@pytest.fixture
async def site(root: Path) -> AsyncIterator[Site]:
    """A host and a running kubelet; no daemon yet."""
    made = build_site(root)
    async with made.kubelet:
        yield made


@pytest.fixture
def api() -> Iterator[FakeApiServer]:
    server = FakeApiServer()
    with server.serving():
        yield server
