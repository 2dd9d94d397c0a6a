"""Which VFs a resource offers: the selectors, checked and normalised."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from numaplace.devices.pci import PCI_ADDRESS
from numaplace.errors import InputError

LINK_TYPES = ("ether", "infiniband")
MAX_VF_INDEX = 65535
_HEX4 = re.compile(r"[0-9a-f]{4}")
_DRIVER = re.compile(r"[A-Za-z0-9_-]+")
_NETDEV = re.compile(r"[^\s/:#]{1,15}")
_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class PfName:
    """One entry of pfNames: a PF's network device and inclusive ranges of VF indexes; no range means all."""

    name: str
    ranges: tuple[tuple[int, int], ...] = ()

    def covers(self, index: int | None) -> bool:
        """Return whether the VF with this index is meant. An unknown index is covered only by "all"."""
        if not self.ranges:
            return True
        return index is not None and any(first <= index <= last for first, last in self.ranges)


def parse_pf_name(text: str) -> PfName:
    """Parse ``ens1f0`` or ``ens1f0#0-3,7``; ``InputError`` says what is allowed."""
    name, hash_, tail = text.partition("#")
    matches = [_RANGE.fullmatch(part) for part in tail.split(",")] if hash_ else []
    ranges = tuple((int(match[1]), int(match[2] or match[1])) for match in matches if match)
    in_order = all(first <= last <= MAX_VF_INDEX for first, last in ranges)
    if not _NETDEV.fullmatch(name) or len(ranges) != len(matches) or not in_order:
        raise InputError(
            f"sriov.pfNames: {text!r} is not allowed; allowed: a network device, with VF indexes or "
            "ascending ranges after '#', such as ens1f0 or ens1f0#0-3,7"
        )
    return PfName(name, ranges)


@dataclass(frozen=True, slots=True)
class SriovSpec:
    """The ``sriov`` selectors: all given fields must match, inside a field any entry may; empty: no limit.

    Hexadecimal fields are folded to lower case. Raises ``InputError`` that names key, value and what is
    allowed. ``rdma`` keeps VFs with an RDMA device only and adds its nodes; ``vhost_net`` adds
    ``/dev/vhost-net`` and ``/dev/net/tun``.
    """

    pf_names: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()
    pci_addresses: tuple[str, ...] = ()
    link_types: tuple[str, ...] = ()
    rdma: bool = False
    vhost_net: bool = False

    def __post_init__(self) -> None:
        for field in ("vendors", "devices", "pci_addresses"):
            object.__setattr__(self, field, tuple(text.lower() for text in getattr(self, field)))
        self.parsed_pf_names()
        hex4 = "four hexadecimal digits without 0x, such as 8086"
        _check("vendors", self.vendors, pattern=_HEX4, allowed=hex4)
        _check("devices", self.devices, pattern=_HEX4, allowed=hex4)
        _check(
            "drivers",
            self.drivers,
            pattern=_DRIVER,
            allowed="a kernel driver's name, such as iavf or vfio-pci",
        )
        _check(
            "pciAddresses",
            self.pci_addresses,
            pattern=PCI_ADDRESS,
            allowed="a VF's full address domain:bus:device.function, such as 0000:3b:02.0",
        )
        _check(
            "linkTypes",
            self.link_types,
            pattern=re.compile("|".join(LINK_TYPES)),
            allowed=" or ".join(LINK_TYPES),
        )

    def parsed_pf_names(self) -> tuple[PfName, ...]:
        """Return pfNames, parsed. Entries of one PF are united, never overridden."""
        return tuple(parse_pf_name(text) for text in self.pf_names)


def _check(key: str, values: Iterable[str], *, pattern: re.Pattern[str], allowed: str) -> None:
    for value in values:
        if not pattern.fullmatch(value):
            raise InputError(f"sriov.{key}: {value!r} is not allowed; allowed: {allowed}")
