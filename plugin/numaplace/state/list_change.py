"""One List and how it differs from the List before: computed once, for everything that uses Lists.

Most pods are the same objects as before (the reader of the List hands out the same object for a pod that did
not change), and are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from numaplace.model.names import NO_IDS, IdsByResource, PodKey
from numaplace.model.observation import Observation
from numaplace.model.podresources import PodUse
from numaplace.state.pod_totals import ContributionCache

Entries = Mapping[PodKey, tuple[PodUse, ...]]
"""The pods of a List by name. Without UIDs, two of one name are a finished pod and its successor."""

_NO_KEYS: frozenset[PodKey] = frozenset()


@dataclass(frozen=True, slots=True)
class PodChanges:
    """Names of pods: ``changed`` ones are listed now and were not, or otherwise; ``gone`` ones were listed.

    ``came`` are the changed ones with more entries than before. ``emptied`` are the changed ones that held
    something and hold nothing now: perhaps a successor of the same name.
    """

    changed: frozenset[PodKey] = _NO_KEYS
    gone: frozenset[PodKey] = _NO_KEYS
    came: frozenset[PodKey] = _NO_KEYS
    emptied: frozenset[PodKey] = _NO_KEYS

    def __bool__(self) -> bool:
        return bool(self.changed or self.gone)


@dataclass(frozen=True, slots=True)
class DeviceChanges:
    """The devices that pods hold, those that only this List shows, and those that only the one before did."""

    held: IdsByResource = field(default_factory=dict)
    added: IdsByResource = field(default_factory=dict)
    removed: IdsByResource = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ListChange:
    """``observation`` is ``None`` before the first List. ``then`` returns the change of the next one.

    ``final``: it is the last one of its kubelet. The next one is of ``another`` kubelet, which admits all
    pods: they all come anew.
    """

    observation: Observation | None = None
    entries: Entries = field(default_factory=dict, repr=False)
    pods: PodChanges = PodChanges()
    devices: DeviceChanges = field(default_factory=DeviceChanges)
    final: bool = False
    another: bool = False
    _objects: Mapping[int, PodUse] = field(default_factory=dict, repr=False, compare=False)

    @property
    def taken_at_seconds(self) -> float:
        return float("-inf") if self.observation is None else self.observation.taken_at_seconds

    def then(self, observation: Observation, *, cache: ContributionCache | None = None) -> ListChange:
        if self.final:
            return self._then_another(observation, cache)
        if self.observation is not None and observation.pods is self.observation.pods:
            return replace(
                self,
                observation=observation,
                pods=PodChanges(),
                devices=DeviceChanges(self.devices.held),
                another=False,
            )
        pods = observation.pods
        objects = dict(zip(map(id, pods), pods, strict=True))
        if self._objects and len(objects) == len(pods):
            entries, touched = _updated(self.entries, self._objects, objects)
        else:
            # The first List, or one with an object twice.
            entries = _by_key(pods)
            touched = self.entries.keys() | entries.keys()
            objects = objects if len(objects) == len(pods) else {}
        held = (ContributionCache() if cache is None else cache).totals(pods).devices
        return ListChange(
            observation,
            entries,
            _pod_changes(self.entries, entries, touched),
            _device_changes(self.devices.held, held),
            _objects=objects,
        )

    def _then_another(self, observation: Observation, cache: ContributionCache | None) -> ListChange:
        change = ListChange().then(observation, cache=cache)
        gone = frozenset(self.entries.keys() - change.entries.keys())
        return replace(
            change,
            pods=replace(change.pods, gone=gone),
            devices=_device_changes(self.devices.held, change.devices.held),
            another=True,
        )


def _by_key(pods: Sequence[PodUse]) -> dict[PodKey, tuple[PodUse, ...]]:
    entries: dict[PodKey, tuple[PodUse, ...]] = {}
    for pod in pods:
        entries[pod.key] = (*entries.get(pod.key, ()), pod)
    return entries


def _updated(
    old: Entries, before: Mapping[int, PodUse], now: Mapping[int, PodUse]
) -> tuple[Entries, set[PodKey]]:
    """Return the entries with the pods that came and without those that went, and all their names.

    ``before`` and ``now`` are by ``id``.
    """
    entries = dict(old)
    touched = set()
    for identity in before.keys() - now.keys():
        gone = before[identity]
        touched.add(gone.key)
        left = tuple(one for one in entries.pop(gone.key) if one is not gone)
        if left:
            entries[gone.key] = left
    for identity in now.keys() - before.keys():
        came = now[identity]
        touched.add(came.key)
        entries[came.key] = (*entries.get(came.key, ()), came)
    return entries, touched


def _pod_changes(old: Entries, new: Entries, touched: Iterable[PodKey]) -> PodChanges:
    changed, gone, came, emptied = set(), set(), set(), set()
    for key in touched:
        before, now = old.get(key, ()), new.get(key, ())
        if not now:
            gone.add(key)
        elif not _same(before, now):
            changed.add(key)
            if len(now) > len(before):
                came.add(key)
            if any(map(_holds_anything, before)) and not any(map(_holds_anything, now)):
                emptied.add(key)
    return PodChanges(frozenset(changed), frozenset(gone), frozenset(came), frozenset(emptied))


def _same(before: tuple[PodUse, ...], now: tuple[PodUse, ...]) -> bool:
    return len(before) == len(now) and all(any(a is b or a == b for b in now) for a in before)


def _holds_anything(pod: PodUse) -> bool:
    return any(
        one.devices or one.cpus or any(block.size_bytes > 0 for block in one.memory) for one in pod.containers
    )


def _device_changes(old: IdsByResource, new: IdsByResource) -> DeviceChanges:
    added, removed = {}, {}
    for resource in old.keys() | new.keys():
        before, now = old.get(resource, NO_IDS), new.get(resource, NO_IDS)
        if before is now:
            continue
        if came := now - before:
            added[resource] = came
        if gone := before - now:
            removed[resource] = gone
    return DeviceChanges(new, added, removed)
