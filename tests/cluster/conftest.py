from __future__ import annotations

from collections.abc import Iterator

import pytest
from numaplace.cluster.fake import FakeApiServer


@pytest.fixture
def api() -> Iterator[FakeApiServer]:
    server = FakeApiServer()
    with server.serving():
        yield server
