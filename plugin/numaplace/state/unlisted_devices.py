"""Devices that the kubelet holds according to its checkpoint, and that List does not show.

They are an init container's, whose pod keeps what no later container takes over until it ends (device
manager, ``devicesToReuse``; List shows no init containers). The checkpoint may also be older than a pod's
end: List has the kubelet forget what ended pods held, but it writes that down with its next change only. So a
device that a List has shown, and a later one no longer shows, is free: one of ours until we grant it again,
one of another plugin until the checkpoint is written again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from numaplace.model.names import NO_IDS, DeviceId, IdsByResource, ResourceName
from numaplace.state.list_change import DeviceChanges


@dataclass(frozen=True, slots=True)
class UnlistedLog:
    """Methods return the next value, or the same."""

    _written: IdsByResource = field(default_factory=dict)
    _ended: IdsByResource = field(default_factory=dict)

    def written(
        self, found: IdsByResource | None, *, ours: Collection[ResourceName], since: UnlistedLog
    ) -> UnlistedLog:
        """Note what was found in the checkpoint, which is at least as new as ``since``."""
        if not found and not self._written:
            return self
        ended = {
            resource: ids if resource in ours else ids - since._ended.get(resource, NO_IDS)
            for resource, ids in self._ended.items()
        }
        return UnlistedLog(found or {}, ended)

    def of_another_kubelet(self) -> UnlistedLog:
        return UnlistedLog(self._written)

    def after_list(self, devices: DeviceChanges) -> UnlistedLog:
        if not devices.added and not devices.removed:
            return self
        ended = {}
        for resource in self._ended.keys() | devices.removed.keys():
            before = devices.removed.get(resource, NO_IDS) | self._ended.get(resource, NO_IDS)
            if gone := before - devices.held.get(resource, NO_IDS):
                ended[resource] = gone
        return replace(self, _ended=ended)

    def granted(self, resource: ResourceName, ids: Collection[DeviceId]) -> UnlistedLog:
        return replace(
            self, _ended={**self._ended, resource: self._ended.get(resource, NO_IDS).difference(ids)}
        )

    def held(self, listed: IdsByResource, *, in_flight: IdsByResource) -> IdsByResource:
        """Return the devices that a container may hold, beside ``listed`` ones and grants ``in_flight``."""
        found = {}
        for resource, ids in self._written.items():
            known = (listed, self._ended, in_flight)
            if left := ids.difference(*(one.get(resource, NO_IDS) for one in known)):
                found[resource] = left
        return found
