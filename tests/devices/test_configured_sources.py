"""What a configuration may say of devices is what the sources take; the two do not import each other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from hypothesis import example, given
from hypothesis import strategies as st
from numaplace.config import checks
from numaplace.config.names import PF_NAME
from numaplace.config.schema import GpuVendor, LinkType
from numaplace.devices.gpu.table import VENDORS
from numaplace.devices.source import SOURCES
from numaplace.devices.sriov.spec import LINK_TYPES, parse_pf_name
from numaplace.errors import InputError


def test_the_closed_lists_are_the_same() -> None:
    assert list(GpuVendor) == list(VENDORS)
    assert list(LinkType) == list(LINK_TYPES)
    assert [name for name in checks.SOURCES if name != "relay"] == list(SOURCES)


@example("sixteen-letters0")
@example("ens1f0#0-65536")
@given(st.text("ab0159#,-:/ .", max_size=24))
def test_pf_names_are_read_alike(text: str) -> None:
    assert _takes(PF_NAME.parse, text) == _takes(parse_pf_name, text)


def _takes(parse: Callable[[str], object], text: str) -> bool:
    with suppress(ValueError, InputError):
        parse(text)
        return True
    return False
