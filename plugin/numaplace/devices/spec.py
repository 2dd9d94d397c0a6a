"""What a resource's devices are: one frozen record per kind of source; the configuration has checked it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from numaplace.devices.sriov.spec import SriovSpec

__all__ = ["DeclaredSpec", "GpuSpec", "SourceSpec", "SriovSpec"]


@dataclass(frozen=True, slots=True)
class GpuSpec:
    """All GPUs of one vendor, a key of ``devices.gpu.table``."""

    vendor: str


@dataclass(frozen=True, slots=True)
class DeclaredSpec:
    """Devices listed in a YAML file; the file is read at each scan, not here."""

    file: Path


SourceSpec = SriovSpec | GpuSpec | DeclaredSpec
