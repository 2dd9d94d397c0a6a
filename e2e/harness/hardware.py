"""The cards of the simulated node, as sysfs, procfs and devfs show them, and where they truly are.

Each NUMA node has a dual-port NIC, whose VFs' PCI addresses interleave (an Intel X710's do), and
GPUs of two vendors. The second port's VFs are bound to vfio-pci.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

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
    """The cards under ``root``: the NUMA node of each device id, per resource; the port of each VF."""

    root: Path
    devices: Mapping[str, Mapping[str, int]]
    port_of: Mapping[str, str]

    @property
    def node_of(self) -> dict[str, int]:
        return {device: node for nodes in self.devices.values() for device, node in nodes.items()}

    def count(self, resource: str) -> int:
        return len(self.devices[resource])


def install(root: Path, topology: SimulatedTopology) -> Hardware:
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
                vfs=VFS_PER_PORT,
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
