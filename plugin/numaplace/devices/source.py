"""The kinds of sources, and how to make one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from numaplace.devices.declared.source import DeclaredSource
from numaplace.devices.gpu.scan import GpuSource
from numaplace.devices.roots import HostRoots
from numaplace.devices.scan import LeftOut, Scan, Source
from numaplace.devices.spec import DeclaredSpec, GpuSpec, SourceSpec, SriovSpec
from numaplace.devices.sriov.scan import SriovSource
from numaplace.model.names import ResourceName

__all__ = ["SOURCES", "LeftOut", "Scan", "Source", "SourceKind", "make_source"]


@dataclass(frozen=True, slots=True)
class SourceKind:
    """One kind: its record, and ``make(spec, resource=..., roots=...)``."""

    spec: type[SourceSpec]
    make: Callable[..., Source]


SOURCES: Mapping[str, SourceKind] = {
    "sriov": SourceKind(SriovSpec, SriovSource),
    "gpu": SourceKind(GpuSpec, GpuSource),
    "declared": SourceKind(DeclaredSpec, DeclaredSource),
}
"""By the key that configurations use."""


def make_source(spec: SourceSpec, *, resource: ResourceName, roots: HostRoots) -> Source:
    """Return the source of the record's kind. Reads nothing yet."""
    kind = next(kind for kind in SOURCES.values() if kind.spec is type(spec))
    return kind.make(spec, resource=resource, roots=roots)
