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

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from numaplace.model.names import DeviceId, PodKey, ResourceName
from numaplace.model.podresources import PodUse
from numaplace.state.pod_totals import ContributionCache

GRANT_GRACE_SECONDS = 30.0
"""Longer than an admission of many containers with slow vendor plugins, shorter than a busy node's churn."""

MAX_FREED_PER_RESOURCE = 1024
"""Of more devices only the ones freed last keep their time: the others have been free for long."""

Ids = frozenset[DeviceId]
NO_IDS: Ids = frozenset()


@dataclass(frozen=True, slots=True)
class Grant:
    """One Allocate that we answered, and the pod it was for, if known."""

    resource: ResourceName
    ids: Ids
    at_seconds: float
    pod: PodKey | None = None


@dataclass(frozen=True, slots=True)
class Ledger:
    """Grants in flight, ``latest`` grant, and freed-at times. Methods return new ledgers, or the same."""

    latest: Grant | None = None
    _grants: tuple[Grant, ...] = ()
    _freed: Mapping[ResourceName, Mapping[DeviceId, float]] = field(default_factory=dict)
    _listed: Mapping[ResourceName, Ids] = field(default_factory=dict)
    _pods: Sequence[PodUse] | None = field(default=None, repr=False, compare=False)

    def granted(
        self,
        resource: ResourceName,
        ids: Iterable[DeviceId],
        *,
        now_seconds: float,
        pod: PodKey | None = None,
    ) -> Ledger:
        """Note that we answered Allocate with these ids. An older grant of one of them is superseded."""
        grant = Grant(resource, frozenset(ids), now_seconds, pod)
        if not grant.ids:
            return self
        return replace(
            self,
            latest=grant,
            _grants=(*_without(self._grants, resource, grant.ids), grant),
            _freed=_unfreed(self._freed, resource, grant.ids),
        )

    def listed(
        self, pods: Sequence[PodUse], *, now_seconds: float, cache: ContributionCache | None = None
    ) -> Ledger:
        """Note a List that was requested at ``now_seconds``; grants made later are not judged by it.

        Returns itself for the same ``pods`` object, unless a grant's grace ran out. ``cache`` saves reading
        unchanged pods again.
        """
        same = pods is self._pods
        if same and not any(_expired(grant, now_seconds) for grant in self._grants):
            return self
        listed = self._listed if same else (cache or ContributionCache()).totals(pods).devices
        grants = _still_in_flight(self._grants, listed, pods, now_seconds=now_seconds)
        freed = self._freed
        before, after = _busy(self._listed, self._grants), _busy(listed, grants)
        for resource in before.keys() | after.keys():
            old, new = before.get(resource, NO_IDS), after.get(resource, NO_IDS)
            if old is not new and old != new:
                freed = _unfreed(freed, resource, new - old)
                freed = _now_freed(freed, resource, old - new, now_seconds=now_seconds)
        return replace(self, _grants=grants, _freed=freed, _listed=listed, _pods=pods)

    def offered(self, resource: ResourceName, ids: Collection[DeviceId], *, now_seconds: float) -> Ledger:
        """Note that the kubelet offers these ids: they are free, whatever was listed or granted before.

        The offer may lack free devices (an aligned call): ids that are not in it are left alone.
        """
        offer = frozenset(ids)
        stale = offer & _busy(self._listed, self._grants).get(resource, NO_IDS)
        freed = _now_freed(self._freed, resource, stale, now_seconds=now_seconds)
        grants = _without(self._grants, resource, stale)
        if freed is self._freed and grants == self._grants:
            return self
        return replace(self, _grants=grants, _freed=freed)

    def in_flight(self) -> Mapping[ResourceName, Ids]:
        """Return the ids granted and not shown by a List yet."""
        return _busy({}, self._grants)

    def freed_at(self, resource: ResourceName) -> Mapping[DeviceId, float]:
        """Return when devices that are free now were seen to become free. Never-used ones are not in it."""
        return self._freed.get(resource, {})


def _expired(grant: Grant, now_seconds: float) -> bool:
    return now_seconds - grant.at_seconds > GRANT_GRACE_SECONDS


def _busy(listed: Mapping[ResourceName, Ids], grants: Iterable[Grant]) -> dict[ResourceName, Ids]:
    found = dict(listed)
    for grant in grants:
        found[grant.resource] = found.get(grant.resource, NO_IDS) | grant.ids
    return found


def _without(grants: Iterable[Grant], resource: ResourceName, ids: Ids) -> tuple[Grant, ...]:
    """Return the grants with these ids taken out, without those that have none left."""
    kept = (
        grant
        if grant.resource != resource or grant.ids.isdisjoint(ids)
        else replace(grant, ids=grant.ids - ids)
        for grant in grants
    )
    return tuple(grant for grant in kept if grant.ids)


def _still_in_flight(
    grants: tuple[Grant, ...],
    listed: Mapping[ResourceName, Ids],
    pods: Iterable[PodUse],
    *,
    now_seconds: float,
) -> tuple[Grant, ...]:
    kept = []
    live: frozenset[PodKey] | None = None
    for grant in grants:
        if grant.at_seconds > now_seconds:
            kept.append(grant)
            continue
        left = grant.ids - listed.get(grant.resource, NO_IDS)
        if left and (grant.pod is not None or _expired(grant, now_seconds)):
            live = frozenset(pod.key for pod in pods) if live is None else live
            if grant.pod not in live:
                continue
        if left:
            kept.append(grant if left == grant.ids else replace(grant, ids=left))
    return tuple(kept)


Freed = Mapping[ResourceName, Mapping[DeviceId, float]]


def _unfreed(freed: Freed, resource: ResourceName, ids: Ids) -> Freed:
    """Forget the times of ids that are in use again."""
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
