"""Pods that the API server has told of, and that the kubelet may be about to admit.

The API server's word is often faster than the kubelet, but never by much: what is known of such a pod has to
count at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from numaplace.kubelet.podresources.poller import Observation
from numaplace.managers.device_manager import PodUid
from numaplace.managers.pod import Pod
from numaplace.model.names import PodKey
from numaplace.state.attribution import Specs


@dataclass(slots=True)
class AnnouncedPods:
    """Notes when a pod was told of first: a List sent before may show an older one of the same name."""

    clock: Callable[[], float]
    _since: dict[PodKey, tuple[PodUid, float]] = field(default_factory=dict)
    _listed: dict[PodKey, PodUid] = field(default_factory=dict)
    _forgot_at: float = float("-inf")

    def forget(self) -> None:
        """Forget who was listed: a kubelet that has just started admits all pods again."""
        self._listed, self._forgot_at = {}, self.clock()

    def told(self, specs: Specs) -> bool:
        """Note the pods that are new; return whether one that was known has gone."""
        now, before = self.clock(), self._since
        self._since = {
            key: before[key] if key in before and before[key][0] == pod.uid else (pod.uid, now)
            for key, pod in specs.pods.items()
        }
        return not before.keys() <= specs.pods.keys()

    def coming(
        self, specs: Specs, seen: Observation | None, *, moving: Collection[PodKey] = ()
    ) -> tuple[Pod, ...]:
        """Return the pods that this List does not show yet, and those that are ``moving`` in it.

        One that a List has shown before has ended, even if the API server, which may be away, has not said so
        yet.
        """
        listed = frozenset(pod.key for pod in seen.pods) if seen else frozenset()

        def is_coming(key: PodKey) -> bool:
            if seen is None or key in moving:
                return True
            if key not in listed:
                return self._listed.get(key) != specs.pods[key].uid
            return key in self._since and self._since[key][1] > seen.taken_at_seconds

        if seen is not None:
            self._note(specs, listed, taken_at_seconds=seen.taken_at_seconds)
        return tuple(pod for key, pod in specs.pods.items() if is_coming(key))

    def _note(self, specs: Specs, listed: Collection[PodKey], *, taken_at_seconds: float) -> None:
        """Note which pods a List shows that was sent after they were told of."""
        if taken_at_seconds < self._forgot_at:
            return
        shown = {
            key: pod.uid
            for key, pod in specs.pods.items()
            if key in listed and key in self._since and self._since[key][1] <= taken_at_seconds
        }
        before = {key: uid for key, uid in self._listed.items() if key in specs.pods}
        self._listed = before | shown
