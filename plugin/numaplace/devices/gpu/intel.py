"""Intel GPUs: DRM nodes from sysfs.

The id is the PCI address, not the vendor's ``cardN-<share>``: card numbers follow the order in which the
drivers started and may belong to another GPU after a reboot, while the kubelet stores ids.
A GPU whose VFs are on offers the VFs and not itself, as Intel's plugin does.
"""

from __future__ import annotations

from numaplace.devices.files import exists
from numaplace.devices.gpu.vendor import NO_DRM_NODE, GpuHost, GpuVendor, Unit, drm_nodes, watch_drm
from numaplace.devices.pci import PciFunction
from numaplace.model.device import ContainerEdits, Mount


def _units(function: PciFunction, host: GpuHost) -> tuple[Unit, ...] | str:
    nodes = drm_nodes(function.path)
    if not nodes:
        return NO_DRM_NODE
    links = (f"dri/by-path/pci-{function.address}-{kind}" for kind in ("card", "render"))
    mounts = tuple(Mount(f"/dev/{link}", f"/dev/{link}") for link in links if exists(host.roots.devfs / link))
    return (Unit(function.address, ContainerEdits(device_nodes=nodes, mounts=mounts)),)


INTEL = GpuVendor(
    name="intel",
    pci_vendor="8086",
    classes=("0300", "0380"),
    drivers=("i915", "xe"),
    offers_vfs=True,
    units=_units,
    watched=watch_drm,
)
