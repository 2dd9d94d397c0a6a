"""What a resource's devices are: one frozen record per kind of source, valid once it exists."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from numaplace.devices.gpu.table import VENDORS
from numaplace.devices.sriov.spec import SriovSpec
from numaplace.errors import InputError

__all__ = ["DeclaredSpec", "GpuSpec", "SourceSpec", "SriovSpec"]


@dataclass(frozen=True, slots=True)
class GpuSpec:
    """All GPUs of one vendor. ``InputError`` for a vendor that is not in the table."""

    vendor: str

    def __post_init__(self) -> None:
        if self.vendor not in VENDORS:
            allowed = ", ".join(VENDORS)
            raise InputError(f"gpu.vendor: {self.vendor!r} is not allowed; allowed: {allowed}")


@dataclass(frozen=True, slots=True)
class DeclaredSpec:
    """Devices listed in a YAML file; the file is read at each scan, not here."""

    file: Path


SourceSpec = SriovSpec | GpuSpec | DeclaredSpec
