"""Maps a configured resource onto its device source. The two layers below do not know each other."""

from __future__ import annotations

import msgspec

from numaplace.config.schema import HostConfig, ResourceConfig
from numaplace.devices.roots import HostRoots
from numaplace.devices.scan import Source
from numaplace.devices.source import make_source
from numaplace.devices.spec import DeclaredSpec, GpuSpec, SourceSpec, SriovSpec
from numaplace.errors import InputError


def roots_of(host: HostConfig) -> HostRoots:
    return HostRoots(sysfs=host.sysfs, devfs=host.devfs, procfs=host.procfs)


def source_of(resource: ResourceConfig, host: HostConfig) -> Source:
    """Return the source of a configured resource; ``InputError`` if its selectors are wrong."""
    return make_source(_spec_of(resource), resource=resource.name, roots=roots_of(host))


def _spec_of(resource: ResourceConfig) -> SourceSpec:
    if resource.sriov is not None:
        return SriovSpec(**msgspec.structs.asdict(resource.sriov))
    if resource.gpu is not None:
        return GpuSpec(vendor=resource.gpu.vendor.value)
    if resource.declared is not None:
        return DeclaredSpec(file=resource.declared.file)
    raise InputError(f"resources: {resource.name}: has no device source of this version")
