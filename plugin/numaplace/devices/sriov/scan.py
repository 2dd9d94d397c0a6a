"""The ``sriov`` source: scans the PCI bus."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from numaplace.devices.files import existing_directories
from numaplace.devices.numa import NumaCheck
from numaplace.devices.pci import PciBus, PciFunction
from numaplace.devices.roots import HostRoots
from numaplace.devices.scan import LeftOut, Scan
from numaplace.devices.sriov.edits import edits_of, missing_vhost_nodes
from numaplace.devices.sriov.selectors import why_not
from numaplace.devices.sriov.spec import SriovSpec
from numaplace.devices.sriov.vf import PhysicalFunction, read_pf, read_vf
from numaplace.model.device import Device
from numaplace.model.names import DeviceId, ResourceName

NETWORK_CLASS = "02"


class SriovSource:
    """Offers the VFs that a ``SriovSpec`` selects, by PCI address, grouped by PF.

    Keeps each PF's network device name between scans (see ``read_pf``).
    """

    def __init__(self, spec: SriovSpec, *, resource: ResourceName, roots: HostRoots) -> None:
        self._spec = spec
        self._resource = resource
        self._roots = roots
        self._bus = PciBus(roots.sysfs)
        self._pfs: Mapping[str, PhysicalFunction] = {}

    @property
    def watch_paths(self) -> tuple[Path, ...]:
        return existing_directories(self._bus.directory, self._roots.devfs / "vfio")

    def scan(self) -> Scan:
        if not self._bus.readable:
            path = self._bus.directory
            return Scan(
                failed=True, warnings=(f"{path}: not a readable directory; SR-IOV devices are unknown",)
            )
        functions = tuple(self._bus.functions(classes=(NETWORK_CLASS,)))
        self._pfs = self._read_pfs(functions)
        numa = NumaCheck(self._roots.sysfs)
        looked = [self._look(function, numa) for function in functions if function.is_vf or function.is_pf]
        return Scan(
            devices=tuple(found for found in looked if isinstance(found, Device)),
            left_out=tuple(found for found in looked if isinstance(found, LeftOut)),
            warnings=(*self._warnings(), *numa.warnings),
        )

    def _read_pfs(self, functions: tuple[PciFunction, ...]) -> dict[str, PhysicalFunction]:
        """Read each PF once. A PF is any function that some VF points to, or that can have VFs."""
        addresses = {
            function.physfn or function.address for function in functions if function.is_vf or function.is_pf
        }
        return {
            address: read_pf(f"{self._bus.directory}/{address}", remembered=self._pfs.get(address))
            for address in sorted(addresses)
        }

    def _look(self, function: PciFunction, numa: NumaCheck) -> Device | LeftOut:
        if not function.is_vf:
            return LeftOut(function.address, f"a PF with {function.numvfs} VFs: only VFs are offered")
        vf = read_vf(function, self._pfs[function.physfn])
        if not function.driver:
            return LeftOut(vf.address, "no driver is bound")
        if reason := why_not(self._spec, vf):
            return LeftOut(vf.address, reason)
        edits = edits_of(vf, self._spec, resource=self._resource, devfs=self._roots.devfs)
        if isinstance(edits, str):
            return LeftOut(vf.address, edits)
        return Device(
            id=DeviceId(vf.address),
            nodes=numa.nodes(vf.address, (function.numa_node,)),
            group=vf.pf.address,
            edits=edits,
        )

    def _warnings(self) -> tuple[str, ...]:
        present = {name for pf in self._pfs.values() for name in pf.names}
        known = ", ".join(sorted(present)) or "none"
        absent = [entry.name for entry in self._spec.pf_names if entry.name not in present]
        warnings = [
            f"sriov.pfNames: {name} is not a PF of this host (PFs: {known})" for name in dict.fromkeys(absent)
        ]
        if self._spec.vhost_net and (missing := missing_vhost_nodes(self._roots.devfs)):
            warnings.append(
                f"sriov.vhostNet: {', '.join(missing)} is missing on the host; containers get no vhost nodes"
            )
        return tuple(warnings)
