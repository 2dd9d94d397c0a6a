"""The cards of the simulated node, as sysfs, procfs and devfs show them, and where they truly are.

Each NUMA node has a dual-port NIC, whose VFs' PCI addresses interleave (an Intel X710's do), and
GPUs of two vendors. The second port's VFs are bound to vfio-pci.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from numaplace.devices.fake import FakeHost

from harness.topology import SimulatedTopology

VF = "intel.com/sriov_vf"
NVIDIA = "nvidia.com/gpu"
AMD = "amd.com/gpu"

VFS_PER_PORT = 4
NVIDIA_PER_NODE = 4
AMD_PER_NODE = 2

SOURCES: Mapping[str, Mapping[str, object]] = {
    VF: {"sriov": {"vendors": ["8086"], "devices": ["154c"]}},
    NVIDIA: {"gpu": {"vendor": "nvidia"}},
    AMD: {"gpu": {"vendor": "amd"}},
}


@dataclass(frozen=True, slots=True)
class Hardware:
    """The cards under ``root``: the NUMA node of each device id, per resource; the port of each VF.

    ``sources`` are the daemon's settings for finding them, per resource.
    """

    root: Path
    devices: Mapping[str, Mapping[str, int]]
    port_of: Mapping[str, str]
    sources: Mapping[str, Mapping[str, object]] = field(default_factory=lambda: SOURCES)

    @property
    def node_of(self) -> dict[str, int]:
        return {device: node for nodes in self.devices.values() for device, node in nodes.items()}

    def count(self, resource: str) -> int:
        return len(self.devices[resource])


def install(root: Path, topology: SimulatedTopology, *, vfs_per_port: int = VFS_PER_PORT) -> Hardware:
    """Put the cards of every NUMA node into the trees under ``root``."""
    host = FakeHost(root)
    devices: dict[str, dict[str, int]] = {VF: {}, NVIDIA: {}, AMD: {}}
    port_of: dict[str, str] = {}
    for node in topology.node_ids:
        bus = 0x18 + 0x20 * node
        for port, driver in enumerate(("iavf", "vfio-pci")):
            name = f"ens{node}f{port}"
            vfs = host.pf(
                f"0000:{bus:02x}:00.{port}",
                name,
                numa=node,
                vfs=vfs_per_port,
                vf_driver=driver,
                vf_offset=0x80,
                vf_stride=2,
            )
            devices[VF] |= dict.fromkeys(vfs, node)
            port_of |= dict.fromkeys(vfs, name)
        for vendor, resource, number in (("nvidia", NVIDIA, NVIDIA_PER_NODE), ("amd", AMD, AMD_PER_NODE)):
            for _ in range(number):
                bus += 1
                gpu = host.gpu(vendor, f"0000:{bus:02x}:00.0", numa=node)
                devices[resource][gpu] = node
    return Hardware(root, devices, port_of)


def declare(root: Path, topology: SimulatedTopology, *, devices: Mapping[str, Mapping[str, int]]) -> Hardware:
    """Declare devices (resource -> id -> NUMA node) in files under ``root``; no cards are there then."""
    (root / "dev").mkdir(exist_ok=True)
    hardware = Hardware(
        root,
        devices,
        port_of={},
        sources={resource: {"declared": {"file": str(_file(root, resource))}} for resource in devices},
    )
    for resource in devices:
        set_unhealthy(hardware, resource, frozenset())
    return hardware


def set_unhealthy(hardware: Hardware, resource: str, ids: frozenset[str]) -> None:
    """Have just these of a resource's declared devices unhealthy."""
    entries = [
        {"id": id_, "numaNode": node, "healthy": id_ not in ids}
        for id_, node in hardware.devices[resource].items()
    ]
    file = _file(hardware.root, resource)
    unfinished = file.with_suffix(".part")
    unfinished.write_text(yaml.safe_dump({"devices": entries}))
    os.replace(unfinished, file)


def _file(root: Path, resource: str) -> Path:
    return root / f"{resource.replace('/', '_')}.yaml"
