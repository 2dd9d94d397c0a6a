from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from device_cases import record
from numaplace.devices.fake import FakeHost
from numaplace.devices.scan import Source
from numaplace.devices.source import make_source
from numaplace.model.names import ResourceName


@pytest.fixture
def host(root: Path) -> FakeHost:
    """Two NUMA nodes and no cards."""
    fake = FakeHost(root)
    fake.numa_node(0, cpus="0-7", memory_bytes=1 << 34, distances=(10, 21))
    fake.numa_node(1, cpus="8-15", memory_bytes=1 << 34, distances=(21, 10))
    return fake


@pytest.fixture
def source(host: FakeHost) -> Callable[..., Source]:
    """Makes a source of a kind on the host: source("gpu", vendor="amd")."""

    def make(kind: str, *, resource: str = "example.com/dev", **fields: Any) -> Source:
        return make_source(record(kind, fields), resource=ResourceName(resource), roots=host.roots)

    return make
