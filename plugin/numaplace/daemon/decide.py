"""One GetPreferredAllocation: fresh state within a share of the deadline, then the pure decision.

The answer must never fail a pod (an error would) and never be late. So the live List has half of the
deadline; when it does not come, the last snapshot decides, and that is counted. What goes wrong after that is
caught here once, counted, logged, and answered with must-include and the first ids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from numaplace.daemon.keeper import Asking, Keeper
from numaplace.daemon.logs import EventLog
from numaplace.engine.options import PolicyOptions
from numaplace.errors import PeerError
from numaplace.kubelet.poller import Poller
from numaplace.kubelet.preference import fallback
from numaplace.metrics.labels import FallbackReason
from numaplace.metrics.metrics import Metrics
from numaplace.model.mask import nodes_of
from numaplace.model.names import DeviceId, ResourceName
from numaplace.placement.index import DeviceIndex
from numaplace.placement.place import PlacementRequest, place
from numaplace.placement.reasons import Placement
from numaplace.placement.text import why
from numaplace.state.snapshot import Snapshot

LIVE_SHARE = 0.5
"""The part of the deadline that a live List may take; the rest is for the decision and the way back."""


@dataclass(frozen=True, slots=True)
class DecisionSettings:
    """What a reload may change between two decisions."""

    options: PolicyOptions
    deadline_seconds: float
    live_list: bool


class Decider:
    """Answers for all resources. ``clock`` is the monotonic clock of keeper and poller, in seconds."""

    def __init__(
        self,
        *,
        keeper: Keeper,
        poller: Poller,
        metrics: Metrics,
        log: EventLog,
        clock: Callable[[], float],
    ) -> None:
        self._keeper = keeper
        self._poller = poller
        self._metrics = metrics
        self._log = log
        self._clock = clock

    async def decide(
        self,
        resource: ResourceName,
        available: Sequence[DeviceId],
        must_include: Sequence[DeviceId],
        *,
        size: int,
        index: DeviceIndex,
        settings: DecisionSettings,
    ) -> tuple[DeviceId, ...]:
        """Return ``size`` of the offered ids, and count and log why; never raises but for cancellation."""
        started = self._clock()
        strategy = settings.options.strategy
        try:
            offered = frozenset(available).difference(must_include)
            degraded: FallbackReason | None = None
            snapshot, asking = None, None
            if size < len(offered) + len(set(must_include)):
                degraded = await self._refresh(settings)
                self._keeper.offered(resource, tuple(offered))
                snapshot = self._keeper.snapshot(offered={resource: offered})
                asking = self._keeper.asking(resource, snapshot)
            placement = place(
                PlacementRequest(
                    available,
                    must_include,
                    size,
                    held=asking.held if asking else 0,
                    freed_at=self._keeper.freed_at(resource),
                ),
                index=index,
                topology=self._keeper.topology,
                snapshot=snapshot,
                options=settings.options,
            )
        except Exception as exc:  # noqa: BLE001 - an error here would fail the pod
            duration = self._clock() - started
            reason = FallbackReason.ERROR
            self._metrics.fell_back(resource, strategy=strategy, reason=reason, duration_seconds=duration)
            self._log.error("decision failed", exc=exc, resource=resource, size=size, offered=len(available))
            return fallback(available, must_include, size)
        duration = self._clock() - started
        self._metrics.decided(
            resource,
            strategy=strategy,
            outcome=placement.outcome,
            score_decided=placement.score_decided,
            duration_seconds=duration,
            degraded=degraded,
        )
        self._tell(resource, placement, size=size, offered=len(available), snapshot=snapshot, asking=asking,
                   degraded=degraded, duration=duration)  # fmt: skip
        return placement.ids

    async def _refresh(self, settings: DecisionSettings) -> FallbackReason | None:
        """Get a List that is newer than this call; return what is lacking if there is none."""
        if settings.live_list:
            try:
                await self._poller.live(timeout_seconds=settings.deadline_seconds * LIVE_SHARE)
            except PeerError:
                return FallbackReason.STALE if self._poller.latest else FallbackReason.SNAPSHOT
        return None if self._poller.latest else FallbackReason.SNAPSHOT

    def _tell(
        self,
        resource: ResourceName,
        placement: Placement,
        *,
        size: int,
        offered: int,
        snapshot: Snapshot | None,
        asking: Asking | None,
        degraded: FallbackReason | None,
        duration: float,
    ) -> None:
        pod = asking.pod if asking else None
        self._log.info(
            "decision",
            resource=resource,
            pod="/".join(pod) if pod else None,
            size=size,
            offered=offered,
            ids=placement.ids,
            numa=None if placement.mask is None else nodes_of(placement.mask),
            structural=None if placement.structural is None else nodes_of(placement.structural),
            strategy=placement.strategy,
            outcome=placement.outcome,
            rule=placement.rule,
            why=why(placement),
            candidates=[
                {
                    "numa": nodes_of(candidate.mask),
                    "preferred": candidate.preferred,
                    "score": candidate.score,
                    "scores": candidate.scores,
                }
                for candidate in placement.candidates
            ],
            held=nodes_of(placement.held),
            degraded=degraded,
            snapshot_age_ms=round(snapshot.age_seconds(self._clock()) * 1000, 1) if snapshot else None,
            duration_ms=round(duration * 1000, 2),
        )
