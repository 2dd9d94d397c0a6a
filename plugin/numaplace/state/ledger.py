"""Grants that PodResources does not show yet, and when devices became free.

A grant is in flight from our answer to Allocate until a List shows its devices. Absence from a List proves
little: the List may be older than the grant, and init containers are never listed although their devices stay
theirs until the pod ends (kubernetes/kubernetes#126765; device manager, UpdateAllocatedDevices frees by pod).
So a grant that is not shown ends
- at once, when the kubelet offers its devices: it offers only what is free, or reusable by the pod that asks;
- at the first List sent after it that does not show its pod: the admission failed, or the pod is gone, and
  another one of its name may come;
- where its pod is not known, after ``GRANT_GRACE_SECONDS``, at the first List then that does not show its
  devices. They may be an init container's and still in use: they read as free, but are not offered.

Times are the caller's monotonic clock, as everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from numaplace.model.names import NO_IDS, DeviceId, Ids, IdsByResource, PodKey, ResourceName
from numaplace.state.list_change import ListChange

GRANT_GRACE_SECONDS = 30.0
"""Longer than an admission of many containers with slow vendor plugins, shorter than a busy node's churn."""

MAX_FREED_PER_RESOURCE = 1024
"""Of more devices only the ones freed last keep their time: the others have been free for long."""


@dataclass(frozen=True, slots=True)
class Grant:
    """One Allocate that we answered, and the pod it was for, if known.

    A List sent after ``shown_since_seconds`` shows that pod.
    """

    resource: ResourceName
    ids: Ids
    at_seconds: float
    pod: PodKey | None = None
    shown_since_seconds: float = float("-inf")


@dataclass(frozen=True, slots=True)
class Ledger:
    """Grants in flight, the two latest grants, and freed-at times. Methods return new ledgers, or the same.

    An answer to GetPreferredAllocation is a grant to be: the Allocate that follows it, with the same ids, is
    for the same pod.
    """

    latest: Grant | None = None
    previous: Grant | None = None
    _answer: Grant | None = None
    _grants: tuple[Grant, ...] = ()
    _freed: Mapping[ResourceName, Mapping[DeviceId, float]] = field(default_factory=dict)

    def answered(
        self, resource: ResourceName, ids: Iterable[DeviceId], *, asked_at_seconds: float, pod: PodKey | None
    ) -> Ledger:
        answer = Grant(resource, frozenset(ids), asked_at_seconds, pod, asked_at_seconds)
        return replace(self, _answer=answer)

    def unanswered(self) -> Ledger:
        """Forget the preference: the next Allocate may be another kubelet's."""
        return replace(self, _answer=None)

    def granted(self, resource: ResourceName, ids: Iterable[DeviceId], *, now_seconds: float) -> Ledger:
        """Note that we answered Allocate with these ids. An older grant of one of them is superseded."""
        grant, answer = Grant(resource, frozenset(ids), now_seconds, None, now_seconds), self._answer
        if not grant.ids:
            return self.unanswered()
        if answer is not None and (answer.resource, answer.ids) == (resource, grant.ids):
            grant = replace(answer, at_seconds=now_seconds)
        return Ledger(
            latest=grant,
            previous=self.latest,
            _grants=(*_without(self._grants, resource, grant.ids), grant),
            _freed=_unfreed(self._freed, resource, grant.ids),
        )

    def after_list(self, change: ListChange) -> Ledger:
        """Note a List; grants made after it was sent are not judged by it.

        Returns itself if it changes nothing.
        """
        now_seconds = change.taken_at_seconds
        grants = _still_in_flight(self._grants, change)
        if not change.pods and grants == self._grants:
            return self
        freed, busy = self._freed, _busy(change.devices.held, grants)
        for resource, ids in change.devices.added.items():
            freed = _unfreed(freed, resource, ids)
        for resource, ids in _busy(change.devices.removed, self._grants).items():
            free = ids - busy.get(resource, NO_IDS)
            freed = _now_freed(freed, resource, free, now_seconds=now_seconds)
        return replace(self, _grants=grants, _freed=freed)

    def offered(
        self, resource: ResourceName, ids: Ids, *, listed: IdsByResource, now_seconds: float
    ) -> Ledger:
        """Note that the kubelet offers these ids: they are free, whatever was ``listed`` or granted before.

        The offer may lack free devices (an aligned call): ids that are not in it are left alone.
        """
        stale = ids & _busy(listed, self._grants).get(resource, NO_IDS)
        freed = _now_freed(self._freed, resource, stale, now_seconds=now_seconds)
        grants = _without(self._grants, resource, stale)
        if freed is self._freed and grants == self._grants:
            return self
        return replace(self, _grants=grants, _freed=freed)

    def in_flight(self) -> IdsByResource:
        return _busy({}, self._grants)

    def freed_at(self, resource: ResourceName) -> Mapping[DeviceId, float]:
        """Return when devices that are free now were seen to become free. Never-used ones are not in it."""
        return self._freed.get(resource, {})


def _expired(grant: Grant, now_seconds: float) -> bool:
    return now_seconds - grant.at_seconds > GRANT_GRACE_SECONDS


def _busy(listed: IdsByResource, grants: Iterable[Grant]) -> dict[ResourceName, Ids]:
    found = dict(listed)
    for grant in grants:
        found[grant.resource] = found.get(grant.resource, NO_IDS) | grant.ids
    return found


def _without(grants: Iterable[Grant], resource: ResourceName, ids: Ids) -> tuple[Grant, ...]:
    kept = (
        grant
        if grant.resource != resource or grant.ids.isdisjoint(ids)
        else replace(grant, ids=grant.ids - ids)
        for grant in grants
    )
    return tuple(grant for grant in kept if grant.ids)


def _still_in_flight(grants: tuple[Grant, ...], change: ListChange) -> tuple[Grant, ...]:
    kept = []
    for grant in grants:
        if grant.at_seconds > change.taken_at_seconds:
            kept.append(grant)
            continue
        left = grant.ids - change.devices.held.get(grant.resource, NO_IDS)
        judged = grant.pod is not None or _expired(grant, change.taken_at_seconds)
        if left and not (judged and grant.pod not in change.entries):
            kept.append(grant if left == grant.ids else replace(grant, ids=left))
    return tuple(kept)


Freed = Mapping[ResourceName, Mapping[DeviceId, float]]


def _unfreed(freed: Freed, resource: ResourceName, ids: Ids) -> Freed:
    times = freed.get(resource, {})
    if ids.isdisjoint(times):
        return freed
    return {**freed, resource: {key: at for key, at in times.items() if key not in ids}}


def _now_freed(freed: Freed, resource: ResourceName, ids: Ids, *, now_seconds: float) -> Freed:
    """Give ids a time, unless they have one: a finished pod may be listed long after its devices are free."""
    times = freed.get(resource, {})
    new = ids - times.keys()
    if not new:
        return freed
    merged = {**times, **dict.fromkeys(sorted(new), now_seconds)}
    if len(merged) > MAX_FREED_PER_RESOURCE:
        newest = sorted(merged.items(), key=lambda item: item[1])[-MAX_FREED_PER_RESOURCE:]
        merged = dict(newest)
    return {**freed, resource: merged}
