from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from cluster_tools import client_of
from numaplace.cluster.client import ApiClient
from numaplace.cluster.fake import FakeApiServer


@pytest.fixture
def api() -> Iterator[FakeApiServer]:
    server = FakeApiServer()
    with server.serving():
        yield server


@pytest.fixture
async def client(api: FakeApiServer) -> AsyncIterator[ApiClient]:
    with client_of(api.url) as client:
        yield client
