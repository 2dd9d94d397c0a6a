"""AMD GPUs: DRM nodes from sysfs, ``/dev/kfd``, and compute partitions from the KFD topology.

The id of a GPU is its PCI address, that of a further partition ``amdgpu_xcp_<n>``, as in ROCm's plugin. The
first partition is the GPU's own PCI function.
"""

from __future__ import annotations

from pathlib import Path

from numaplace.devices.files import exists, names_in, read_pairs, to_int
from numaplace.devices.gpu.vendor import NO_DRM_NODE, GpuHost, GpuVendor, Unit, drm_nodes, watch_drm
from numaplace.devices.pci import PciFunction
from numaplace.model.device import ContainerEdits, DeviceNode

_PARTITION = "amdgpu_xcp_"
_RENDER = "/dev/dri/renderD"
_KFD = DeviceNode.below_dev("kfd")


def _units(function: PciFunction, host: GpuHost) -> tuple[Unit, ...] | str:
    sysfs = host.roots.sysfs
    own = drm_nodes(function.path)
    if not own:
        return NO_DRM_NODE
    shared = (_KFD,) if exists(sysfs / "class/kfd/kfd") else ()
    units = [Unit(function.address, ContainerEdits(device_nodes=shared + own))]
    partitions = [name for name in names_in(sysfs / "devices/platform") if name.startswith(_PARTITION)]
    # Partitions are platform devices: only the KFD topology says whose they are, and which are in use.
    parents = _parents(sysfs) if partitions else {}
    for name in partitions:
        nodes = drm_nodes(sysfs / "devices/platform" / name)
        if function.address in (parents.get(node.host_path) for node in nodes):
            units.append(Unit(name, ContainerEdits(device_nodes=shared + nodes)))
    return tuple(units)


def _parents(sysfs: Path) -> dict[str, str]:
    """Return the PCI address of the GPU behind each render node that a KFD node has."""
    topology = sysfs / "class/kfd/kfd/topology/nodes"
    parents: dict[str, str] = {}
    for name in names_in(topology):
        facts = read_pairs(topology / name / "properties", " ")
        location, domain = to_int(facts.get("location_id", "")), to_int(facts.get("domain", "0"))
        if location is not None and domain is not None:
            address = f"{domain:04x}:{location >> 8 & 255:02x}:{location >> 3 & 31:02x}.{location & 7}"
            parents.setdefault(f"{_RENDER}{facts.get('drm_render_minor')}", address)
    return parents


AMD = GpuVendor(
    name="amd",
    pci_vendor="1002",
    classes=("0300", "0302", "0380", "1200"),
    drivers=("amdgpu",),
    offers_vfs=False,
    units=_units,
    watched=watch_drm,
)
