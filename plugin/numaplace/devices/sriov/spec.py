"""Which VFs a resource offers: the selectors, as the configuration has read them."""

from __future__ import annotations

from dataclasses import dataclass

from numaplace.reading.names import PfName


@dataclass(frozen=True, slots=True)
class SriovSpec:
    """The ``sriov`` selectors: all given fields must match, inside a field any entry may; empty: no limit.

    Hexadecimal fields are folded to lower case. ``rdma`` keeps VFs with an RDMA device only and adds its
    nodes; ``vhost_net`` adds ``/dev/vhost-net`` and ``/dev/net/tun``.
    """

    pf_names: tuple[PfName, ...] = ()
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
