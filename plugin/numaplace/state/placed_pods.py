"""Which pods have been given their devices: what an Event can report, from what List shows.

A decision only says what we preferred; List says what a container was allocated. A container gets
one resource after the other, so a pod's devices count once it is done with admission (``state.admission``),
or once nothing has been added for a while: the last pod of a burst has no successor that would prove it done.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from numaplace.model.names import DeviceId, PodKey, ResourceName
from numaplace.model.podresources import PodUse
from numaplace.state.list_change import ListChange

SETTLED_SECONDS = 2.0

Holding = frozenset[tuple[str, ResourceName, frozenset[DeviceId]]]
"""Container, resource, ids; List gives them in random order."""


@dataclass(frozen=True, slots=True)
class _Seen:
    holding: Holding
    since_seconds: float
    reported: bool


@dataclass(frozen=True, slots=True)
class PlacedPodsLog:
    """Gives each pod with devices once. ``after_list`` returns the next log.

    Pods of the first List were placed before our time, and are not given.
    """

    _seen: Mapping[PodKey, _Seen] | None = field(default=None, repr=False)

    def after_list(
        self,
        change: ListChange,
        *,
        complete: Collection[PodKey],
        known: Collection[PodKey],
        now_seconds: float,
    ) -> tuple[PlacedPodsLog, tuple[PodUse, ...]]:
        """Return the next log and the pods that have settled; a pod that is not ``known`` yet has to wait."""
        first, before = self._seen is None, self._seen or {}
        seen = {key: before[key] for key in before.keys() & change.entries.keys() - change.pods.changed}
        for key in change.pods.changed:
            entry = _next(before.get(key), change.entries[key][-1], now_seconds=now_seconds, reported=first)
            if entry is not None:
                seen[key] = entry
        settled = []
        for key, entry in seen.items():
            due = key in complete or now_seconds - entry.since_seconds >= SETTLED_SECONDS
            if not entry.reported and due and key in known:
                settled.append(change.entries[key][-1])
                seen[key] = replace(entry, reported=True)
        return PlacedPodsLog(seen), tuple(sorted(settled, key=lambda pod: pod.key))


def _next(before: _Seen | None, pod: PodUse, *, now_seconds: float, reported: bool) -> _Seen | None:
    holding = frozenset(
        (one.name, block.resource, frozenset(block.ids)) for one in pod.containers for block in one.devices
    )
    if not holding:
        return None
    if before is not None and before.holding == holding:
        return before
    return _Seen(holding, now_seconds, reported)
