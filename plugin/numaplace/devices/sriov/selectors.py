"""Does a VF belong to the resource? One function per selector; each answers why not.

All selectors must pass; inside one any entry may match. The semantics are those of the SR-IOV network
device plugin, except that every entry for a PF counts (there only the first one does).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from numaplace.devices.sriov.spec import SriovSpec
from numaplace.devices.sriov.vf import VirtualFunction, rdma_nodes
from numaplace.model.ranges import ranges
from numaplace.reading.names import PfName

Selector = Callable[[SriovSpec, VirtualFunction], str]
"""Returns why the VF is not selected, or "" when it is."""


def why_not(spec: SriovSpec, vf: VirtualFunction) -> str:
    return next((reason for selector in SELECTORS.values() if (reason := selector(spec, vf))), "")


def _any_of(key: str, value: str, allowed: tuple[str, ...]) -> str:
    if not allowed or value in allowed:
        return ""
    return f"{key}: {value or 'unknown'} is not in [{', '.join(allowed)}]"


def _vendors(spec: SriovSpec, vf: VirtualFunction) -> str:
    return _any_of("vendors", vf.function.vendor, spec.vendors)


def _devices(spec: SriovSpec, vf: VirtualFunction) -> str:
    return _any_of("devices", vf.function.device, spec.devices)


def _drivers(spec: SriovSpec, vf: VirtualFunction) -> str:
    return _any_of("drivers", vf.function.driver, spec.drivers)


def _pci_addresses(spec: SriovSpec, vf: VirtualFunction) -> str:
    return _any_of("pciAddresses", vf.address, spec.pci_addresses)


def _link_types(spec: SriovSpec, vf: VirtualFunction) -> str:
    return _any_of("linkTypes", vf.link_type, spec.link_types)


def _pf_names(spec: SriovSpec, vf: VirtualFunction) -> str:
    if not spec.pf_names:
        return ""
    if not vf.pf.names:
        return f"pfNames: the PF {vf.pf.address} shows no network device here; select it by pciAddresses"
    named = [entry for entry in spec.pf_names if entry.name in vf.pf.names]
    if not named:
        given = ", ".join(entry.text for entry in spec.pf_names)
        return f"pfNames: its PF {'/'.join(vf.pf.names)} is not in [{given}]"
    return "" if any(entry.covers(vf.index) for entry in named) else _outside(vf, named)


def _outside(vf: VirtualFunction, named: list[PfName]) -> str:
    indexes = ", ".join(ranges(one) for entry in named for one in entry.ranges)
    index = "unknown" if vf.index is None else vf.index
    return f"pfNames: VF index {index} of {named[0].name} is not in [{indexes}]"


def _rdma(spec: SriovSpec, vf: VirtualFunction) -> str:
    return "" if not spec.rdma or rdma_nodes(vf.function) else "rdma: it has no RDMA device"


SELECTORS: Mapping[str, Selector] = {
    "vendors": _vendors,
    "devices": _devices,
    "drivers": _drivers,
    "pciAddresses": _pci_addresses,
    "pfNames": _pf_names,
    "linkTypes": _link_types,
    "rdma": _rdma,
}
