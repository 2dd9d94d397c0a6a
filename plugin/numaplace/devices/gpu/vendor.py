"""What a vendor's module provides, and what all vendors share."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from numaplace.devices.files import StrPath, names_in
from numaplace.devices.gpu.cdi import CdiCatalog
from numaplace.devices.pci import PciFunction
from numaplace.devices.roots import HostRoots
from numaplace.model.device import ContainerEdits, DeviceNode

NO_DRM_NODE = "its driver shows no DRM node yet"
_DRM_NODE = re.compile(r"(card|renderD)\d+", re.ASCII)


@dataclass(frozen=True, slots=True)
class GpuHost:
    """What a vendor's module may read."""

    roots: HostRoots
    cdi: CdiCatalog


@dataclass(frozen=True, slots=True)
class Unit:
    """One device that a GPU offers: the GPU itself, or one of its partitions."""

    id: str
    edits: ContainerEdits


@dataclass(frozen=True, slots=True)
class GpuVendor:
    """A vendor of GPUs.

    ``classes`` are prefixes of PCI classes (class and subclass), ``drivers`` those that run containers.
    ``offers_vfs``: a GPU with VFs offers these in place of itself; otherwise VFs are left out.
    ``units`` says what one GPU offers, or why nothing.
    """

    name: str
    pci_vendor: str
    classes: tuple[str, ...]
    drivers: tuple[str, ...]
    offers_vfs: bool
    units: Callable[[PciFunction, GpuHost], tuple[Unit, ...] | str]
    watched: Callable[[HostRoots], tuple[Path, ...]]


def drm_nodes(device: StrPath) -> tuple[DeviceNode, ...]:
    """Return the card and render nodes below a device's sysfs directory; ``controlD*`` is obsolete."""
    names = (name for name in names_in(f"{device}/drm") if _DRM_NODE.fullmatch(name))
    return tuple(DeviceNode.below_dev(f"dri/{name}") for name in names)


def watch_drm(roots: HostRoots) -> tuple[Path, ...]:
    return (roots.devfs / "dri",)
