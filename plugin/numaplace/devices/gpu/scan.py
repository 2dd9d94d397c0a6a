"""The ``gpu`` source: scans the PCI bus for one vendor."""

from __future__ import annotations

from pathlib import Path

from numaplace.devices.files import existing_directories
from numaplace.devices.gpu.cdi import CdiCatalog
from numaplace.devices.gpu.table import VENDORS
from numaplace.devices.gpu.vendor import GpuHost
from numaplace.devices.numa import NumaCheck
from numaplace.devices.pci import PciBus, PciFunction
from numaplace.devices.roots import HostRoots
from numaplace.devices.scan import LeftOut, Scan
from numaplace.devices.spec import GpuSpec
from numaplace.model.device import Device
from numaplace.model.names import DeviceId, ResourceName


class GpuSource:
    """Offers the GPUs of one vendor that its container driver runs. A partition's group is its GPU."""

    def __init__(self, spec: GpuSpec, *, resource: ResourceName, roots: HostRoots) -> None:
        self._vendor = VENDORS[spec.vendor]
        self._bus = PciBus(roots.sysfs)
        self._host = GpuHost(roots, CdiCatalog(roots.cdi))

    @property
    def watch_paths(self) -> tuple[Path, ...]:
        roots = self._host.roots
        return existing_directories(self._bus.directory, *self._vendor.watched(roots))

    def scan(self) -> Scan:
        if not self._bus.readable:
            path = self._bus.directory
            return Scan(failed=True, warnings=(f"{path}: not a readable directory; GPUs are unknown",))
        numa = NumaCheck(self._host.roots.sysfs)
        devices: list[Device] = []
        left_out: list[LeftOut] = []
        for function in self._bus.functions(classes=self._vendor.classes, vendor=self._vendor.pci_vendor):
            units = self._why_not(function) or self._vendor.units(function, self._host)
            if isinstance(units, str):
                left_out.append(LeftOut(function.address, units))
                continue
            devices += [
                Device(
                    id=DeviceId(unit.id),
                    nodes=numa.nodes(unit.id, (function.numa_node,)),
                    group=function.address,
                    edits=unit.edits,
                )
                for unit in units
            ]
        return Scan(tuple(devices), tuple(left_out), tuple(numa.warnings))

    def _why_not(self, function: PciFunction) -> str:
        """Return the reason that is the same for all vendors, or ""."""
        if function.is_vf and not self._vendor.offers_vfs:
            return f"a VF of {function.physfn}: VFs are not offered for {self._vendor.name}"
        if function.numvfs:
            return f"a PF with {function.numvfs} VFs: it is not offered itself"
        if function.driver not in self._vendor.drivers:
            return f"driver {function.driver or 'none'}: needs {' or '.join(self._vendor.drivers)}"
        return ""
