"""What sysfs says about a virtual function and its PF."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from numaplace.devices.files import link_name, names_in, read_int, read_text
from numaplace.devices.pci import PciFunction

_LINK_TYPES = {1: "ether", 32: "infiniband"}  # ARPHRD_* of Linux if_arp.h
_VIRTFN = re.compile(r"virtfn(\d+)", re.ASCII)
_NOIOMMU = "vfio-noiommu"


@dataclass(frozen=True, slots=True)
class PhysicalFunction:
    """A PF: its network devices' names and link type (empty: unknown), and the index of each VF address."""

    address: str
    names: tuple[str, ...] = ()
    link_type: str = ""
    indexes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VirtualFunction:
    """A VF. ``index`` is None when its PF does not list it; ``link_type`` falls back to the PF's."""

    function: PciFunction
    pf: PhysicalFunction
    index: int | None
    link_type: str

    @property
    def address(self) -> str:
        """Its PCI address, which is its device id: Multus and sriov-cni take it so."""
        return self.function.address


def read_pf(path: str, *, remembered: PhysicalFunction | None = None) -> PhysicalFunction:
    """Read the PF whose sysfs directory is ``path``.

    A PF's network device vanishes from the host's view when it is moved into a pod's network namespace;
    the name and link type ``remembered`` from an earlier scan are kept then.
    """
    names, link_type = _network_devices(path)
    if not names and remembered:
        names, link_type = remembered.names, remembered.link_type
    # The links are listed, not counted: numbers may have gaps.
    indexes = {
        link_name(f"{path}/{name}"): int(match[1])
        for name in names_in(path)
        if (match := _VIRTFN.fullmatch(name))
    }
    return PhysicalFunction(path.rpartition("/")[2], names, link_type, indexes)


def read_vf(function: PciFunction, pf: PhysicalFunction) -> VirtualFunction:
    """Add to a PCI function what its PF says. The VF's network device need not be visible."""
    return VirtualFunction(
        function=function,
        pf=pf,
        index=pf.indexes.get(function.address),
        link_type=_network_devices(function.path)[1] or pf.link_type,
    )


def iommu_group(function: PciFunction) -> tuple[str, bool]:
    """Return the function's IOMMU group ("" without one) and whether it is a no-IOMMU group."""
    group = link_name(f"{function.path}/iommu_group")
    return group, read_text(f"{function.path}/iommu_group/name") == _NOIOMMU


def uio_device(function: PciFunction) -> str:
    return next((name for name in names_in(f"{function.path}/uio") if name.startswith("uio")), "")


def rdma_devices(function: PciFunction) -> tuple[str, ...]:
    """Return the names of its RDMA devices that this network namespace sees."""
    return names_in(f"{function.path}/infiniband")


def rdma_nodes(function: PciFunction) -> tuple[str, ...]:
    """Return the names, below ``/dev/infiniband``, of its own RDMA character devices; empty without RDMA.

    Unlike the RDMA device, these stay visible when the device is in a pod's namespace (exclusive mode).
    """
    verbs = names_in(f"{function.path}/infiniband_verbs")
    mad = names_in(f"{function.path}/infiniband_mad")
    return tuple(name for name in (*verbs, *mad) if name.startswith(("uverbs", "umad", "issm")))


def _network_devices(path: str) -> tuple[tuple[str, ...], str]:
    """Return the names of the function's network devices, and the link type of the first one, or ""."""
    names = names_in(f"{path}/net")
    kinds = (read_int(f"{path}/net/{name}/type") for name in names)
    return names, next((_LINK_TYPES.get(kind, f"type {kind}") for kind in kinds if kind is not None), "")
