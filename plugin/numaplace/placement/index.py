"""A resource's devices as placement needs them, computed once per inventory, not once per call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from numaplace.model.device import Device, natural_key
from numaplace.model.names import DeviceId


@dataclass(frozen=True, slots=True)
class DeviceIndex:
    """Per device id its natural-order rank, NUMA mask (0 = no topology) and group; the ids on each node."""

    rank: Mapping[DeviceId, int]
    mask: Mapping[DeviceId, int]
    group: Mapping[DeviceId, str]
    on_node: Mapping[int, frozenset[DeviceId]]

    def ordered(self, ids: Iterable[DeviceId]) -> list[DeviceId]:
        """Return the distinct ids in natural order; ids that are not in the inventory come last."""
        distinct = set(ids)
        known = sorted(distinct & self.rank.keys(), key=self.rank.__getitem__)
        if len(known) < len(distinct):
            known += sorted(distinct.difference(known), key=natural_key)
        return known


def index_devices(devices: Iterable[Device]) -> DeviceIndex:
    """Index an inventory. A device without a group forms its own."""
    ordered = sorted(devices, key=lambda device: natural_key(device.id))
    return DeviceIndex(
        rank={device.id: rank for rank, device in enumerate(ordered)},
        mask={device.id: device.mask for device in ordered},
        group={device.id: device.group or device.id for device in ordered},
        on_node={
            node: frozenset(device.id for device in ordered if node in device.nodes)
            for node in {node for device in ordered for node in device.nodes}
        },
    )
