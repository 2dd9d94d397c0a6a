"""What a configuration may say of devices is what the sources take; the two do not import each other."""

from __future__ import annotations

from numaplace.config import checks
from numaplace.config.schema import GpuVendor
from numaplace.devices.gpu.table import VENDORS
from numaplace.devices.source import SOURCES


def test_the_closed_lists_are_the_same() -> None:
    assert list(GpuVendor) == list(VENDORS)
    assert [name for name in checks.SOURCES if name != "relay"] == list(SOURCES)
