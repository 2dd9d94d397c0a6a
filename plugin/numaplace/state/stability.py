"""Whether anything may still be under admission, and which pods are done with it for sure.

The rules of ``state.admission`` prove a pod done once another one comes after it; the last one has no
successor. So a pod also counts as done when Lists have shown it unchanged for a while; for a longer while,
where a container that waits for a vendor's plugin would be harmed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from numaplace.model.names import PodKey
from numaplace.model.podresources import PodUse
from numaplace.state.ledger import GRANT_GRACE_SECONDS

QUIET_SECONDS = 1.0
"""Longer than the admission of a container, unless a vendor's plugin is slow."""

Uses = tuple[PodUse, ...]


@dataclass(frozen=True, slots=True)
class StabilityLog:
    """Since when the pods that may be under admission look as they do. ``observed`` gives the next value."""

    _since: Mapping[PodKey, tuple[Uses, float]] = field(default_factory=dict, repr=False)

    def observed(
        self, pods: Sequence[PodUse], complete: Collection[PodKey], *, taken_at_seconds: float
    ) -> StabilityLog:
        """Note a List, and the pods in it that are done (``AdmissionLog.complete``)."""
        open_: dict[PodKey, Uses] = {}
        for pod in pods:
            if pod.key not in complete:
                open_[pod.key] = (*open_.get(pod.key, ()), pod)
        since: dict[PodKey, tuple[Uses, float]] = {}
        for key, uses in open_.items():
            before = self._since.get(key)
            since[key] = before if before and _same(before[0], uses) else (uses, taken_at_seconds)
        return StabilityLog(since)

    def moving(self, taken_at_seconds: float) -> frozenset[PodKey]:
        """Return the pods that may still be under admission, by the List taken then."""
        return frozenset(
            key for key, (_, since) in self._since.items() if taken_at_seconds - since < QUIET_SECONDS
        )

    def open_until(self, taken_at_seconds: float, *, may_ask: Callable[[PodUse], bool]) -> float | None:
        """Return until when a pod may be under admission that can ask for more; ``None``: there is none.

        A vendor's plugin may take its time over a container whose NUMA node is chosen already.
        """
        ends = [
            since + GRANT_GRACE_SECONDS
            for uses, since in self._since.values()
            if taken_at_seconds - since < GRANT_GRACE_SECONDS and any(map(may_ask, uses))
        ]
        return max(ends, default=None)


def _same(before: Uses, now: Uses) -> bool:
    """Compare in any order: two of one key are a finished pod and its successor."""
    return len(before) == len(now) and all(any(a is b or a == b for b in now) for a in before)
