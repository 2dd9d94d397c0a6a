"""Pods that the API server has announced, and that the kubelet may be about to admit.

The API server is often faster than the kubelet, but never by much: such a pod has to count at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from numaplace.managers.device_manager import PodUid
from numaplace.managers.pod import Pod
from numaplace.model.names import PodKey
from numaplace.state.attribution import Specs
from numaplace.state.list_change import ListChange


@dataclass(frozen=True, slots=True)
class AnnouncedPods:
    """When each pod was announced: a List sent before may show an older one of the same name.

    Events return the next value.
    """

    _since: Mapping[PodKey, tuple[PodUid, float]] = field(default_factory=dict)
    _listed: Mapping[PodKey, PodUid] = field(default_factory=dict)
    _forgot_at: float = float("-inf")

    @property
    def known(self) -> frozenset[PodKey]:
        return frozenset(self._since)

    def forgotten(self, *, now_seconds: float) -> AnnouncedPods:
        """Forget who was listed: a kubelet that has just started admits all pods again."""
        return AnnouncedPods(self._since, {}, now_seconds)

    def announced(self, specs: Specs, *, now_seconds: float) -> AnnouncedPods:
        before = self._since
        since = {
            key: before[key] if key in before and before[key][0] == pod.uid else (pod.uid, now_seconds)
            for key, pod in specs.pods.items()
        }
        listed = {key: uid for key, uid in self._listed.items() if key in since}
        return AnnouncedPods(since, listed, self._forgot_at)

    def after_list(self, change: ListChange) -> AnnouncedPods:
        taken_at_seconds = change.taken_at_seconds
        if taken_at_seconds < self._forgot_at:
            return self
        shown = {
            key: uid
            for key, (uid, at_seconds) in self._since.items()
            if at_seconds <= taken_at_seconds and key in change.entries
        }
        return replace(self, _listed={**self._listed, **shown})

    def coming(self, specs: Specs, change: ListChange, *, moving: Collection[PodKey] = ()) -> tuple[Pod, ...]:
        """Return the pods that this List does not show yet, and those that are ``moving`` in it.

        One that a List has shown before has ended, even if the API server, which may be unreachable, has not
        reported it yet.
        """

        def is_coming(key: PodKey) -> bool:
            if change.observation is None or key in moving:
                return True
            if key not in change.entries:
                return self._listed.get(key) != specs.pods[key].uid
            return key in self._since and self._since[key][1] > change.taken_at_seconds

        return tuple(pod for key, pod in specs.pods.items() if is_coming(key))
