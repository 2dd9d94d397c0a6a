"""Whether anything may still be under admission, and which pods are done with it for sure.

The rules of ``state.admission`` prove a pod done once another one comes after it; the last one has no
successor. So a pod also counts as done when Lists have shown it unchanged for a while; for a longer while,
where a container that waits for a vendor's plugin would be harmed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from numaplace.model.names import PodKey
from numaplace.model.podresources import PodUse
from numaplace.state.ledger import GRANT_GRACE_SECONDS
from numaplace.state.list_change import ListChange

QUIET_SECONDS = 1.0
"""Longer than the admission of a container, unless a vendor's plugin is slow."""


@dataclass(frozen=True, slots=True)
class StabilityLog:
    """Since when pods that may be under admission are unchanged. ``after_list`` returns the next value."""

    _since: Mapping[PodKey, float] = field(default_factory=dict, repr=False)

    def after_list(self, change: ListChange, complete: frozenset[PodKey]) -> StabilityLog:
        now, before = change.taken_at_seconds, self._since
        return StabilityLog(
            {
                key: now if key in change.pods.changed else before.get(key, now)
                for key in change.entries.keys() - complete
            }
        )

    def moving(self, taken_at_seconds: float) -> frozenset[PodKey]:
        return frozenset(
            key for key, since in self._since.items() if taken_at_seconds - since < QUIET_SECONDS
        )

    def open_until(self, change: ListChange, *, may_ask: Callable[[PodUse], bool]) -> float | None:
        """Return until when a pod may be under admission that can request more; ``None``: there is none.

        A vendor's plugin may take its time over a container whose NUMA node is chosen already.
        """
        now = change.taken_at_seconds
        ends = [
            since + GRANT_GRACE_SECONDS
            for key, since in self._since.items()
            if now - since < GRANT_GRACE_SECONDS and any(map(may_ask, change.entries[key]))
        ]
        return max(ends, default=None)
