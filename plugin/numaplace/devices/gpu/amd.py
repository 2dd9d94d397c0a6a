"""AMD GPUs: DRM nodes from sysfs, ``/dev/kfd``, and compute partitions from the KFD topology.

The id of a GPU is its PCI address, that of a further partition ``amdgpu_xcp_<n>``, as in ROCm's plugin. The
first partition is the GPU's own PCI function.
"""

from __future__ import annotations

from pathlib import Path

from numaplace.devices.files import exists, names_in, read_text, to_int
from numaplace.devices.gpu.vendor import GpuHost, GpuVendor, Unit, drm_nodes
from numaplace.devices.pci import PciFunction
from numaplace.devices.roots import HostRoots
from numaplace.model.device import ContainerEdits, DeviceNode

_PARTITION = "amdgpu_xcp_"
_RENDER = "/dev/dri/renderD"
_KFD = DeviceNode("/dev/kfd", "/dev/kfd")


def _units(function: PciFunction, host: GpuHost) -> tuple[Unit, ...] | str:
    sysfs = host.roots.sysfs
    own = drm_nodes(function.path)
    if not own:
        return "its driver shows no DRM node yet"
    shared = (_KFD,) if exists(sysfs / "class/kfd/kfd") else ()
    units = [Unit(function.address, ContainerEdits(device_nodes=shared + own))]
    for name in names_in(sysfs / "devices/platform"):
        if not name.startswith(_PARTITION):
            continue
        nodes = drm_nodes(sysfs / "devices/platform" / name)
        # Partitions are platform devices: only the KFD topology says whose they are, and which are in use.
        if _parent(sysfs, nodes) == function.address:
            units.append(Unit(name, ContainerEdits(device_nodes=shared + nodes)))
    return tuple(units)


def _parent(sysfs: Path, nodes: tuple[DeviceNode, ...]) -> str:
    """Return the PCI address of the GPU whose KFD node has this render node; "" without one."""
    minors = {node.host_path.removeprefix(_RENDER) for node in nodes if node.host_path.startswith(_RENDER)}
    topology = sysfs / "class/kfd/kfd/topology/nodes"
    for name in names_in(topology):
        pairs = (line.partition(" ") for line in read_text(topology / name / "properties").splitlines())
        facts = {key: value.strip() for key, _, value in pairs}
        location, domain = to_int(facts.get("location_id", "")), to_int(facts.get("domain", "0"))
        if facts.get("drm_render_minor") in minors and location is not None and domain is not None:
            return f"{domain:04x}:{location >> 8 & 255:02x}:{location >> 3 & 31:02x}.{location & 7}"
    return ""


def _watched(roots: HostRoots) -> tuple[Path, ...]:
    return (roots.devfs / "dri",)


AMD = GpuVendor(
    name="amd",
    pci_vendor="1002",
    classes=("0300", "0302", "0380", "1200"),
    drivers=("amdgpu",),
    offers_vfs=False,
    units=_units,
    watched=_watched,
)
