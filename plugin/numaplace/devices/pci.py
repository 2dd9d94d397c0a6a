"""What sysfs says about any PCI function."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from numaplace.devices.files import link_name, names_in, read_int, read_text

_HEX = frozenset("0123456789abcdef")

PCI_DEVICES = "bus/pci/devices"
# Domains have more than four digits on some hosts (VMD: 10000:e1:00.0).
PCI_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")


@dataclass(frozen=True, slots=True)
class PciFunction:
    """One PCI function.

    ``vendor`` and ``device`` are four hexadecimal digits, ``pci_class`` the first four (class and
    subclass: ``0200`` Ethernet); all are empty when unreadable. ``driver`` and ``physfn`` (the PF of a VF)
    are empty when there is none. ``numa_node`` is as the kernel gives it, None without a number.
    ``numvfs`` is None on functions that are not a PF.
    """

    address: str
    path: str
    vendor: str
    device: str
    pci_class: str
    driver: str
    physfn: str
    numa_node: int | None
    numvfs: int | None

    @property
    def is_vf(self) -> bool:
        return bool(self.physfn)

    @property
    def is_pf(self) -> bool:
        """Whether it can have VFs."""
        return self.numvfs is not None


@dataclass(frozen=True, slots=True)
class _Identity:
    """What cannot change while a function exists. ``stamp`` tells its entry on the bus from a later one.

    Without a stamp, something could not be read and is read again.
    """

    stamp: tuple[int, int] | None
    pci_class: str
    vendor: str
    device: str


class PciBus:
    """The PCI bus of a host. A function's identity is read once, what may change at every scan."""

    def __init__(self, sysfs: Path) -> None:
        self.directory = sysfs / PCI_DEVICES
        self._known: dict[str, _Identity] = {}

    @property
    def readable(self) -> bool:
        return self.directory.is_dir()

    def functions(self, *, classes: Iterable[str], vendor: str = "") -> Iterator[PciFunction]:
        """Yield the functions whose class begins with one of ``classes``, of ``vendor`` if given, by address.

        Never raises.
        """
        wanted = tuple(classes)
        known, self._known = self._known, {}
        for address in names_in(self.directory):
            path = f"{self.directory}/{address}"
            identity = self._known[address] = _identify(path, known.get(address))
            if identity.pci_class.startswith(wanted) and vendor in ("", identity.vendor):
                yield _look(path, address, identity)


def _identify(path: str, known: _Identity | None) -> _Identity:
    try:
        found = os.lstat(path)
    except OSError:
        return _Identity(None, "", "", "")
    stamp = (found.st_ino, found.st_ctime_ns)
    if known is not None and known.stamp == stamp:
        return known
    pci_class = _hex(f"{path}/class", digits=6)
    vendor, device = _hex(f"{path}/vendor"), _hex(f"{path}/device")
    complete = pci_class and vendor and device
    return _Identity(stamp if complete else None, pci_class, vendor, device)


def _look(path: str, address: str, identity: _Identity) -> PciFunction:
    # Read every time: the kernel adds it after the function has appeared on the bus.
    physfn = link_name(f"{path}/physfn")
    return PciFunction(
        address=address,
        path=path,
        vendor=identity.vendor,
        device=identity.device,
        pci_class=identity.pci_class[:4],
        driver=link_name(f"{path}/driver"),
        physfn=physfn,
        numa_node=read_int(f"{path}/numa_node"),
        # A VF has no VFs.
        numvfs=None if physfn else read_int(f"{path}/sriov_numvfs"),
    )


def _hex(path: str, *, digits: int = 4) -> str:
    """Return a ``0x`` number of sysfs as ``digits`` lower-case digits; empty when it is none."""
    text = read_text(path).lower().removeprefix("0x")
    return text if len(text) == digits and _HEX.issuperset(text) else ""
