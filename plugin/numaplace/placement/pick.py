"""Which devices to take inside a chosen mask: node by node, group by group, freed longest ago first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import inf

from numaplace.model.names import DeviceId, Strategy
from numaplace.placement.index import DeviceIndex


def pick_devices(
    offered: Collection[DeviceId],
    count: int,
    *,
    index: DeviceIndex,
    strategy: Strategy,
    nodes: Sequence[int],
    taken: Iterable[DeviceId] = (),
    freed_at: Mapping[DeviceId, float],
) -> list[DeviceId]:
    """Return ``count`` of the offered ids (or all of them), the best ones first.

    ``offered`` has distinct ids and is free of ``taken``. ``nodes`` are the chosen mask's NUMA nodes in the
    order in which to fill them; devices on none of them come last. ``taken`` are devices that the container
    has already: their groups are used first. ``freed_at`` holds seconds; an id that was never freed counts as
    freed longest ago.
    """
    chosen: list[DeviceId] = []
    used_groups = {index.group.get(device_id, device_id) for device_id in taken}
    for pool in _pools(offered, index, nodes):
        need = min(count - len(chosen), len(pool))
        chosen += _from_groups(
            index.ordered(pool),
            need,
            index=index,
            strategy=strategy,
            used_groups=used_groups,
            freed_at=freed_at,
        )
        if len(chosen) == count:
            break
    return chosen


def _pools(
    offered: Iterable[DeviceId], index: DeviceIndex, nodes: Sequence[int]
) -> Iterator[frozenset[DeviceId]]:
    """Split the offered ids by the first of ``nodes`` that they are on; the rest is the last pool."""
    rest = frozenset(offered)
    for node in nodes:
        here = rest & index.on_node.get(node, frozenset())
        if here:
            yield here
            rest -= here
    if rest:
        yield rest


def _from_groups(
    pool: list[DeviceId],
    need: int,
    *,
    index: DeviceIndex,
    strategy: Strategy,
    used_groups: set[str],
    freed_at: Mapping[DeviceId, float],
) -> list[DeviceId]:
    """Take from the groups of ``pool``; of equally good groups the one whose first device is first."""
    if not freed_at.keys().isdisjoint(pool):
        pool = sorted(pool, key=lambda device_id: freed_at.get(device_id, -inf))
    groups: dict[str, list[DeviceId]] = {}
    for device_id in pool:
        groups.setdefault(index.group.get(device_id, device_id), []).append(device_id)

    chosen: list[DeviceId] = []

    def take(name: str) -> None:
        chosen.extend(groups.pop(name)[: need - len(chosen)])

    for name in [name for name in groups if name in used_groups]:
        take(name)
    if need - len(chosen) > max(map(len, groups.values()), default=0):
        for name in sorted(groups, key=lambda name: -len(groups[name])):
            if need - len(chosen) <= len(groups[name]):
                break
            take(name)
    missing = need - len(chosen)
    if missing > 0:
        fitting = (name for name in groups if len(groups[name]) >= missing)
        take(min(fitting, key=lambda name: _fit(len(groups[name]), strategy)))
    return chosen


def _fit(free: int, strategy: Strategy) -> int:
    """Rank a group that holds all that is missing: the fullest, the emptiest, or the first one."""
    match strategy:
        case Strategy.MOST_ALLOCATED:
            return free
        case Strategy.LEAST_ALLOCATED:
            return -free
        case Strategy.NONE:
            return 0
