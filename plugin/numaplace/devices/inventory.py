"""The devices of one resource as published, from scan to scan.

A scan may be wrong for a moment: a driver is being rebound, a file is being replaced. So what was published
changes only after several scans agree, and a device that a pod holds stays whatever the scans say: its
network device is in the pod's namespace, or its PF's is
(k8snetworkplumbingwg/sriov-network-device-plugin#565).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from numaplace.devices.scan import LeftOut, Scan
from numaplace.model.device import Device, natural_key
from numaplace.model.mask import MAX_NODE
from numaplace.model.names import MAX_DEVICE_ID_LENGTH, DeviceId


@dataclass(frozen=True, slots=True)
class Hysteresis:
    """How many scans in a row, over how long, confirm a change.

    Both limits apply: events can cause several scans within milliseconds. A device turns healthy or
    unhealthy after ``turn``; one that is not seen turns unhealthy after ``turn`` and goes after ``remove``.
    A new device is published at once, with the health it shows.
    """

    turn_scans: int = 2
    turn_seconds: float = 1.0
    remove_scans: int = 4
    remove_seconds: float = 10.0

    def turns(self, scans: int, lasted_seconds: float) -> bool:
        return scans >= self.turn_scans and lasted_seconds >= self.turn_seconds

    def removes(self, scans: int, lasted_seconds: float) -> bool:
        return scans >= self.remove_scans and lasted_seconds >= self.remove_seconds


@dataclass(frozen=True, slots=True)
class Tracked:
    """A device as published, and for how many scans in a row (0: none) it has looked different or missing."""

    device: Device
    scans: int = 0
    since_seconds: float = 0.0
    missing: bool = False


@dataclass(frozen=True, slots=True)
class Inventory:
    """What one resource offers. A value: ``update`` returns the next one."""

    rules: Hysteresis = field(default_factory=Hysteresis)
    tracked: Mapping[DeviceId, Tracked] = field(default_factory=dict)
    left_out: tuple[LeftOut, ...] = ()
    named_without_topology: frozenset[DeviceId] = frozenset()

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices to publish, in natural order of their ids."""
        return tuple(self.tracked[device_id].device for device_id in sorted(self.tracked, key=natural_key))

    @property
    def unsettled(self) -> bool:
        """Whether some device waits for further scans: scan again soon."""
        return any(entry.scans for entry in self.tracked.values())

    def update(self, scan: Scan, *, in_use: frozenset[DeviceId], now_seconds: float) -> InventoryChange:
        """Take in a scan. ``in_use``: ids that containers hold; ``now_seconds``: any monotonic clock.

        A failed scan changes nothing. Nothing new gives this same object back.
        """
        if scan.failed:
            return InventoryChange(self)
        seen, refused = _acceptable(scan)
        tracked = {
            device_id: entry
            for device_id in self.tracked.keys() | seen.keys()
            if (
                entry := self._next(
                    device_id, seen.get(device_id), used=device_id in in_use, now_seconds=now_seconds
                )
            )
        }
        left_out = scan.left_out + refused
        without = frozenset(key for key, entry in tracked.items() if not entry.device.nodes)
        named = (self.named_without_topology & tracked.keys()) | without
        same = tracked == self.tracked and left_out == self.left_out and named == self.named_without_topology
        if same:
            return InventoryChange(self)
        after = replace(self, tracked=tracked, left_out=left_out, named_without_topology=named)
        return _difference(self, after)

    def _next(
        self, device_id: DeviceId, seen: Device | None, *, used: bool, now_seconds: float
    ) -> Tracked | None:
        entry = self.tracked.get(device_id)
        if entry is None:
            return Tracked(seen) if seen else None
        if seen is None and used:
            return Tracked(entry.device)
        if seen is not None and seen.healthy == entry.device.healthy:
            return Tracked(seen)
        missing = seen is None
        again = entry.scans > 0 and entry.missing == missing
        scans = entry.scans + 1 if again else 1
        since_seconds = entry.since_seconds if again else now_seconds
        if missing and self.rules.removes(scans, now_seconds - since_seconds):
            return None
        turns = self.rules.turns(scans, now_seconds - since_seconds)
        if seen is None:
            device = replace(entry.device, healthy=False) if turns else entry.device
            return Tracked(device, scans, since_seconds, missing=True)
        if turns:
            return Tracked(seen)
        return Tracked(replace(seen, healthy=entry.device.healthy), scans, since_seconds)


@dataclass(frozen=True, slots=True)
class InventoryChange:
    """The result of an update. ``changed``: the devices to publish, or their container edits, differ.

    ``without_topology`` are the ids that lack a NUMA node and were not named here before: log them once. A
    device that was gone is named again.
    """

    inventory: Inventory
    added: tuple[DeviceId, ...] = ()
    removed: tuple[DeviceId, ...] = ()
    turned_healthy: tuple[DeviceId, ...] = ()
    turned_unhealthy: tuple[DeviceId, ...] = ()
    without_topology: tuple[DeviceId, ...] = ()
    changed: bool = False


def _acceptable(scan: Scan) -> tuple[dict[DeviceId, Device], tuple[LeftOut, ...]]:
    seen: dict[DeviceId, Device] = {}
    refused = []
    for device in scan.devices:
        if device.id in seen:
            refused.append(LeftOut(device.id, "a second device has this id; the first one is offered"))
        elif not 0 < len(device.id) <= MAX_DEVICE_ID_LENGTH:
            reason = f"the id has {len(device.id)} characters; allowed: 1 to {MAX_DEVICE_ID_LENGTH}"
            refused.append(LeftOut(device.id, reason))
        elif all(0 <= node <= MAX_NODE for node in device.nodes):
            seen[device.id] = device
        else:
            seen[device.id] = replace(device, nodes=())
    return seen, tuple(refused)


def _difference(before: Inventory, after: Inventory) -> InventoryChange:
    old, new = before.tracked, after.tracked
    both = [device_id for device_id in new if device_id in old]
    return InventoryChange(
        inventory=after,
        added=_ordered(new.keys() - old.keys()),
        removed=_ordered(old.keys() - new.keys()),
        turned_healthy=_ordered(
            key for key in both if new[key].device.healthy and not old[key].device.healthy
        ),
        turned_unhealthy=_ordered(
            key for key in both if old[key].device.healthy and not new[key].device.healthy
        ),
        without_topology=_ordered(after.named_without_topology - before.named_without_topology),
        changed=before.devices != after.devices,
    )


def _ordered(ids: Iterable[DeviceId]) -> tuple[DeviceId, ...]:
    return tuple(sorted(ids, key=natural_key))
