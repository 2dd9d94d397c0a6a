"""Devices that the kubelet holds by its own account (its checkpoint), and that List does not show.

They are an init container's, whose pod keeps what no later container takes over until it ends (device
manager, ``devicesToReuse``; List shows no init containers). The checkpoint may also be older than a pod's
end: List has the kubelet forget what ended pods held, but it writes that down with its next change only. So a
device that a List has shown, and a later one shows no more, is free: one of ours until we grant it again, one
of another plugin until the checkpoint is written anew.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from numaplace.model.names import DeviceId, ResourceName

Ids = frozenset[DeviceId]
InUse = Mapping[ResourceName, Ids]
NO_IDS: Ids = frozenset()


@dataclass(frozen=True, slots=True)
class UnlistedLog:
    """Methods return the next value, or the same. Start a new one with another kubelet: it lists anew."""

    _written: InUse = field(default_factory=dict)
    _listed: InUse = field(default_factory=dict)
    _ended: InUse = field(default_factory=dict)

    def written(self, found: InUse | None, *, ours: Collection[ResourceName]) -> UnlistedLog:
        """Note the checkpoint; the same object is the same writing. ``None``: it cannot be read."""
        found = {} if found is None else found
        if found is self._written or (not found and not self._written):
            return self
        ended = {resource: ids for resource, ids in self._ended.items() if resource in ours}
        return replace(self, _written=found, _ended=ended)

    def observed(self, listed: InUse) -> UnlistedLog:
        """Note the devices of a List."""
        ended = {}
        for resource in self._ended.keys() | self._listed.keys():
            before = self._listed.get(resource, NO_IDS) | self._ended.get(resource, NO_IDS)
            if gone := before - listed.get(resource, NO_IDS):
                ended[resource] = gone
        return replace(self, _listed=listed, _ended=ended)

    def granted(self, resource: ResourceName, ids: Collection[DeviceId]) -> UnlistedLog:
        """Note that we answered Allocate with these ids."""
        return replace(
            self, _ended={**self._ended, resource: self._ended.get(resource, NO_IDS).difference(ids)}
        )

    def held(self, in_flight: InUse) -> InUse:
        """Return the devices that somebody may hold; grants ``in_flight`` are known to be held."""
        found = {}
        for resource, ids in self._written.items():
            left = ids - self._listed.get(resource, NO_IDS) - self._ended.get(resource, NO_IDS)
            if left := left - in_flight.get(resource, NO_IDS):
                found[resource] = left
        return found
