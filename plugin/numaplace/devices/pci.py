"""What sysfs says about any PCI function."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from numaplace.devices.files import link_name, names_in, read_int, read_text

PCI_DEVICES = "bus/pci/devices"
# Domains have more than four digits on some hosts (VMD: 10000:e1:00.0).
PCI_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")


@dataclass(frozen=True, slots=True)
class PciFunction:
    """One PCI function.

    ``vendor`` and ``device`` are four hexadecimal digits, ``pci_class`` the first four (class and
    subclass: ``0200`` Ethernet); all are empty when unreadable. ``driver`` and ``physfn`` (the PF of a VF)
    are empty when there is none. ``numa_node`` is as the kernel gives it, None without a number.
    ``numvfs`` is None on functions that are no PF.
    """

    address: str
    path: Path
    vendor: str
    device: str
    pci_class: str
    driver: str
    physfn: str
    numa_node: int | None
    numvfs: int | None

    @property
    def is_vf(self) -> bool:
        """Whether it is the VF of some PF of this host."""
        return bool(self.physfn)

    @property
    def is_pf(self) -> bool:
        """Whether it can have VFs."""
        return self.numvfs is not None


def pci_bus_readable(sysfs: Path) -> bool:
    """Return whether there is a PCI bus to look at, devices or not."""
    return (sysfs / PCI_DEVICES).is_dir()


def pci_functions(sysfs: Path, *, classes: Iterable[str], vendor: str = "") -> Iterator[PciFunction]:
    """Yield the functions whose class begins with one of ``classes``, of ``vendor`` if given, by address."""
    wanted = tuple(classes)
    for address in names_in(sysfs / PCI_DEVICES):
        path = sysfs / PCI_DEVICES / address
        if _hex(path / "class", digits=6).startswith(wanted) and vendor in ("", _hex(path / "vendor")):
            yield read_function(path)


def read_function(path: Path) -> PciFunction:
    """Read the function whose sysfs directory is ``path``. Never raises."""
    return PciFunction(
        address=path.name,
        path=path,
        vendor=_hex(path / "vendor"),
        device=_hex(path / "device"),
        pci_class=_hex(path / "class", digits=6)[:4],
        driver=link_name(path / "driver"),
        physfn=link_name(path / "physfn"),
        numa_node=read_int(path / "numa_node"),
        numvfs=read_int(path / "sriov_numvfs"),
    )


def _hex(path: Path, *, digits: int = 4) -> str:
    """Return a ``0x`` number of sysfs as ``digits`` lower-case digits; empty when it is none."""
    text = read_text(path).lower().removeprefix("0x")
    return text if len(text) == digits and all(letter in "0123456789abcdef" for letter in text) else ""
