"""A fake host: sysfs, procfs and devfs trees that look like real cards to the sources.

For tests, ``numaplace demo`` and the e2e suite. Everything is written below one directory::

    host = FakeHost(tmp_path)
    host.numa_node(0, cpus="0-7", memory_bytes=16 << 30, distances=(10, 21))
    host.numa_node(1, cpus="8-15", memory_bytes=16 << 30, distances=(21, 10))
    # A dual-port NIC: VF addresses of the two PFs interleave (offset 0x80, stride 2).
    host.pf("0000:3b:00.0", "ens1f0", numa=0, vfs=4, vf_offset=0x80, vf_stride=2)
    host.pf("0000:3b:00.1", "ens1f1", numa=0, vfs=4, vf_offset=0x80, vf_stride=2, vf_driver="vfio-pci")
    host.gpu("nvidia", "0000:5e:00.0", numa=0)
    host.gpu("amd", "0000:d8:00.0", numa=1)
    make_source(SriovSpec(), resource=ResourceName("intel.com/sriov_vf"), roots=host.roots).scan()

Device nodes are plain files: sources test their existence only.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from numaplace.devices.fake_gpu import FAKE_GPUS, FakeGpu, nvidia_uuid
from numaplace.devices.fake_tree import FakeTree
from numaplace.devices.host import parse_cpulist
from numaplace.devices.roots import HostRoots

ETHER = 1
INFINIBAND = 32
UIO_DRIVERS = ("igb_uio", "uio_pci_generic")


class FakeHost:
    """Builds the trees; every method may be called again at any time to change the host."""

    def __init__(self, root: Path) -> None:
        self.tree = FakeTree(root)
        self.roots = HostRoots(
            sysfs=root / "sys", devfs=root / "dev", procfs=root / "proc", cdi=(root / "etc/cdi",)
        )
        self._iommu_groups = 0
        self._rdma_devices = 0
        self._uio_devices = 0
        self._vf_addresses: dict[str, dict[int, str]] = {}
        for directory in ("sys/bus/pci/devices", "sys/bus/pci/drivers", "dev", "proc"):
            self.tree.directory(directory)

    def numa_node(
        self, node: int, *, cpus: str = "", memory_bytes: int = 0, distances: Sequence[int] = ()
    ) -> None:
        """Add a NUMA node. ``cpus`` is a cpulist; ``distances`` one per node in ascending order of ids.

        The node is a socket, and each of its CPUs is a core.
        """
        base = f"sys/devices/system/node/node{node}"
        self.tree.file(f"{base}/cpulist", cpus)
        self.tree.file(f"{base}/distance", " ".join(map(str, distances)))
        self.tree.file(f"{base}/meminfo", f"Node {node} MemTotal: {memory_bytes // 1024:>14} kB")
        for cpu in sorted(parse_cpulist(cpus)):
            folder = f"sys/devices/system/cpu/cpu{cpu}"
            self.tree.file(f"{folder}/topology/core_id", str(cpu))
            self.tree.file(f"{folder}/topology/physical_package_id", str(node))
            self.tree.link(f"{base}/cpu{cpu}", folder)
        parent = self.tree.path("sys/devices/system/node")
        nodes = sorted(int(name[4:]) for name in os.listdir(parent) if name.startswith("node"))
        self.tree.file("sys/devices/system/node/online", ",".join(map(str, nodes)))

    def pf(
        self,
        address: str,
        name: str,
        *,
        numa: int | str | None = -1,
        vendor: str = "8086",
        device: str = "1572",
        driver: str = "i40e",
        vfs: int = 0,
        vf_device: str = "154c",
        vf_driver: str | None = "iavf",
        vf_drivers: Mapping[int, str | None] | None = None,
        vf_offset: int = 16,
        vf_stride: int = 1,
        vf_gaps: Sequence[int] = (),
        link_type: int = ETHER,
        rdma: bool = False,
        noiommu: bool = False,
    ) -> tuple[str, ...]:
        """Add a PF with VFs 0..``vfs``-1 and return the VFs' PCI addresses in the order of their indexes.

        ``numa`` is written as given (-1, garbage); None writes no file. ``vf_drivers`` overrides
        ``vf_driver`` by index, None leaves a VF unbound. VFs in ``vf_gaps`` do not exist. ``vf_offset`` and
        ``vf_stride`` are those of the SR-IOV capability: routing id of VF n = PF + offset + n * stride.
        VF netdevs are called ``<name>v<n>`` and exist for kernel drivers only.
        """
        self.pci(address, vendor=vendor, device=device, pci_class="020000", numa=numa, driver=driver)
        base = self.tree.pci(address)
        self.tree.file(f"{base}/sriov_totalvfs", "64")
        self.tree.file(f"{base}/sriov_numvfs", str(vfs))
        self.netdev(address, name, link_type=link_type)
        bound = dict.fromkeys(range(vfs), vf_driver) | dict(vf_drivers or {})
        addresses = {}
        for index in (index for index in range(vfs) if index not in vf_gaps):
            vf = _routed(address, vf_offset + index * vf_stride)
            addresses[index] = vf
            self.pci(vf, vendor=vendor, device=vf_device, pci_class="020000", numa=numa)
            self.tree.link(f"{self.tree.pci(vf)}/physfn", base)
            self.tree.link(f"{base}/virtfn{index}", self.tree.pci(vf))
            self._vf_addresses.setdefault(address, {})[index] = vf
            self._iommu_group(vf, noiommu=noiommu)
            self.bind(vf, bound[index])
            if bound[index] not in (None, "vfio-pci", *UIO_DRIVERS):
                self.netdev(vf, f"{name}v{index}", link_type=link_type)
                if rdma:
                    self.rdma(vf)
        return tuple(addresses.values())

    def gpu(
        self,
        vendor: str,
        address: str,
        *,
        numa: int | str | None = -1,
        driver: str | None = "",
        pci_class: str = "",
        uuid: str = "",
        excluded: bool = False,
        partitions: int = 1,
    ) -> str:
        """Add a GPU of ``vendor`` (nvidia, amd, intel) and return the device id that the source gives it.

        ``driver`` and ``pci_class`` default to the vendor's; ``driver=None`` leaves it unbound. ``uuid`` and
        ``excluded`` are NVIDIA's, ``partitions`` (compute partitions of one card) AMD's.
        """
        kind = FAKE_GPUS[vendor]
        self.pci(
            address,
            vendor=kind.pci_vendor,
            device=kind.device,
            pci_class=pci_class or kind.pci_class,
            numa=numa,
            driver=kind.driver if driver == "" else driver,
        )
        if driver in ("", kind.driver):
            kind.write(self.tree, FakeGpu(address, uuid or nvidia_uuid(address), excluded, partitions))
        return (uuid or nvidia_uuid(address)) if vendor == "nvidia" else address

    def pci(
        self,
        address: str,
        *,
        vendor: str,
        device: str,
        pci_class: str,
        numa: int | str | None = -1,
        driver: str | None = None,
    ) -> None:
        """Add any PCI function. Numbers are hexadecimal without ``0x``; ``pci_class`` has six digits."""
        base = self.tree.pci(address)
        self.tree.file(f"{base}/vendor", f"0x{vendor}")
        self.tree.file(f"{base}/device", f"0x{device}")
        self.tree.file(f"{base}/class", f"0x{pci_class}")
        if numa is not None:
            self.tree.file(f"{base}/numa_node", str(numa))
        self.tree.link(f"sys/bus/pci/devices/{address}", base)
        self.bind(address, driver)

    def bind(self, address: str, driver: str | None) -> None:
        """Bind a function to ``driver``; None unbinds it."""
        link = f"{self.tree.pci(address)}/driver"
        self.tree.remove(link)
        if driver is not None:
            self.tree.link(link, self.tree.directory(f"sys/bus/pci/drivers/{driver}"))
        if driver in UIO_DRIVERS:
            self.tree.directory(f"{self.tree.pci(address)}/uio/uio{self._uio_devices}")
            self._uio_devices += 1

    def netdev(self, address: str, name: str, *, link_type: int = ETHER) -> None:
        self.tree.file(f"{self.tree.pci(address)}/net/{name}/type", str(link_type))

    def move_netdev(self, address: str) -> None:
        """Move a function's network devices into some pod's network namespace: they vanish from sysfs."""
        self.tree.remove(f"{self.tree.pci(address)}/net")

    def rdma(self, address: str) -> None:
        base, number = self.tree.pci(address), self._rdma_devices
        self._rdma_devices += 1
        self.tree.directory(f"{base}/infiniband/mlx5_{number}")
        self.tree.directory(f"{base}/infiniband_verbs/uverbs{number}")
        for name in (f"umad{number}", f"issm{number}"):
            self.tree.directory(f"{base}/infiniband_mad/{name}")
        for name in (f"uverbs{number}", f"umad{number}", f"issm{number}", "rdma_cm"):
            self.node(f"infiniband/{name}")

    def set_numa(self, address: str, numa: int | str | None) -> None:
        """Rewrite a function's ``numa_node``; None removes the file."""
        self.tree.remove(f"{self.tree.pci(address)}/numa_node")
        if numa is not None:
            self.tree.file(f"{self.tree.pci(address)}/numa_node", str(numa))

    def vf(self, pf: str, index: int) -> str:
        return self._vf_addresses[pf][index]

    def remove(self, address: str) -> None:
        for pf, vfs in self._vf_addresses.items():
            for index in [index for index, vf in vfs.items() if vf == address]:
                self.tree.remove(f"{self.tree.pci(pf)}/virtfn{index}")
                del vfs[index]
        self.tree.remove(f"sys/bus/pci/devices/{address}")
        shutil.rmtree(self.tree.path(self.tree.pci(address)), ignore_errors=True)

    def node(self, name: str) -> None:
        """Add a device node, named as below ``/dev``."""
        self.tree.file(f"dev/{name}", "")

    def cdi_spec(self, kind: str, names: Sequence[str]) -> None:
        devices = "".join(f'\n- name: "{name}"\n  containerEdits: {{}}' for name in names)
        text = f'cdiVersion: "0.6.0"\nkind: {kind}\ndevices:{devices or " []"}\n'
        self.tree.file(f"etc/cdi/{kind.replace('/', '-')}.yaml", text)

    def _iommu_group(self, address: str, *, noiommu: bool) -> None:
        number = self._iommu_groups
        self._iommu_groups += 1
        group = f"sys/kernel/iommu_groups/{number}"
        if noiommu:
            self.tree.file(f"{group}/name", "vfio-noiommu")
        self.tree.link(f"{group}/devices/{address}", self.tree.pci(address))
        self.tree.link(f"{self.tree.pci(address)}/iommu_group", group)
        self.node(f"vfio/noiommu-{number}" if noiommu else f"vfio/{number}")
        self.node("vfio/vfio")


def _routed(address: str, distance: int) -> str:
    """Return the PCI address ``distance`` routing ids after ``address``."""
    domain, bus, rest = address.split(":")
    device, function = rest.split(".")
    routing_id = (int(bus, 16) << 8 | int(device, 16) << 3 | int(function)) + distance
    return f"{domain}:{routing_id >> 8:02x}:{routing_id >> 3 & 31:02x}.{routing_id & 7}"
