"""One GetPreferredAllocation: fresh state within a share of the deadline, then the pure decision.

The answer must never fail a pod (an error would) and never be late. So the live List has half of the
deadline; when it does not come, the last snapshot decides, and that is counted. What goes wrong after that is
caught here once, counted, logged, and answered with must-include and the first ids.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import and_
from typing import Protocol

from numaplace.daemon.node_state import NodeStateHolder
from numaplace.daemon.preference.cpus import where_cpus_will_be
from numaplace.daemon.runtime.logs import EventLog
from numaplace.engine.options import PolicyOptions
from numaplace.errors import PeerError
from numaplace.kubelet.plugin.preference import fallback
from numaplace.kubelet.podresources.poller import LIVE_SHARE, Poller
from numaplace.metrics.labels import Alignment, FallbackReason
from numaplace.metrics.metrics import Metrics
from numaplace.model.mask import nodes_of
from numaplace.model.names import DeviceId, PodKey, ResourceName
from numaplace.placement.index import DeviceIndex
from numaplace.placement.place import PlacementRequest, place
from numaplace.placement.reasons import Asker, Candidate, MaskChoice, Placement
from numaplace.placement.text import why
from numaplace.prediction.model import KubeletModel
from numaplace.state.attribution import NO_SPECS, Specs
from numaplace.state.question import NOBODY, Question, Requester

SPECS_SHARE = 0.1
"""The part of the deadline that waiting for a missing spec may take."""

MAX_LOGGED_CANDIDATES = 16


@dataclass(frozen=True, slots=True)
class DecisionSettings:
    """What a reload may change between two decisions."""

    options: PolicyOptions
    deadline_seconds: float
    follow_cpus: bool


class Cluster(Protocol):
    """What a decision uses of the API server (``daemon.cluster.part.part``)."""

    @property
    def specs(self) -> Specs: ...

    async def arrived(self, keys: Collection[PodKey], *, timeout_seconds: float) -> None: ...

    def decided(self, resource: ResourceName, placement: Placement) -> None: ...


@dataclass(frozen=True, slots=True)
class PreferredRequest:
    """A GetPreferredAllocation as the kubelet sent it, and what it is about."""

    resource: ResourceName
    available: Sequence[DeviceId]
    must_include: Sequence[DeviceId]
    size: int
    index: DeviceIndex
    settings: DecisionSettings
    asked_at_seconds: float


@dataclass(frozen=True, slots=True)
class _Decision:
    """A placement and the knowledge behind it; ``degraded`` says what that lacked."""

    placement: Placement
    question: Question
    degraded: FallbackReason | None = None

    @property
    def requester(self) -> Requester:
        return self.question.requester or NOBODY


class Decider:
    """Answers for all resources.

    ``clock`` is the clock of ``node_state`` and ``poller``, in seconds. ``kubelet`` returns what is known of
    the kubelet's configuration. Without ``cluster`` no specs are known.
    """

    def __init__(
        self,
        *,
        node_state: NodeStateHolder,
        poller: Poller,
        metrics: Metrics,
        log: EventLog,
        clock: Callable[[], float],
        kubelet: Callable[[], KubeletModel],
        cluster: Cluster | None = None,
    ) -> None:
        self._node_state = node_state
        self._kubelet = kubelet
        self._cluster = cluster
        self._poller = poller
        self._metrics = metrics
        self._log = log
        self._clock = clock

    async def decide(self, ask: PreferredRequest) -> tuple[DeviceId, ...]:
        """Return ``size`` of the offered ids, and count and log why; never raises but for cancellation."""
        started = self._clock()
        try:
            async with asyncio.timeout(ask.settings.deadline_seconds):
                decision = await self._decide(ask)
        except Exception as exc:  # noqa: BLE001 - an error here would fail the pod
            late = isinstance(exc, TimeoutError)
            self._metrics.fell_back(
                ask.resource,
                strategy=ask.settings.options.strategy,
                reason=FallbackReason.DEADLINE if late else FallbackReason.ERROR,
                duration_seconds=self._clock() - started,
            )
            self._log.error(
                "decision failed", exc=exc, resource=ask.resource, size=ask.size, offered=len(ask.available)
            )
            ids = fallback(ask.available, ask.must_include, ask.size)
            self._answered(ask, ids, None)
            return ids
        self._answered(ask, decision.placement.ids, decision.question.requester)
        duration_seconds = self._clock() - started
        self._metrics.decided(
            ask.resource,
            strategy=decision.placement.strategy,
            outcome=decision.placement.outcome,
            score_decided=decision.placement.choice.score_decided,
            duration_seconds=duration_seconds,
            degraded=decision.degraded,
        )
        # The reply leaves first: the kubelet admits nothing while it waits.
        asyncio.get_running_loop().call_soon(partial(self._tell, ask, decision, duration_seconds))
        return decision.placement.ids

    async def _decide(self, ask: PreferredRequest) -> _Decision:
        offered = frozenset(ask.available)
        if ask.must_include:
            offered = offered.difference(ask.must_include)
        if ask.size >= len(offered) + len(set(ask.must_include)):
            question = Question(self._node_state.now.topology)
            return _Decision(self._place(ask, offered, question), question)
        degraded = await self._refresh(ask.settings)
        fresh = degraded is None
        specs = await self._specs(ask) if fresh else self._known_specs
        state = self._node_state.offered(ask.resource, offered)
        question = state.question(ask.resource, ask.size, offered=offered, specs=specs, fresh=fresh)
        return _Decision(self._place(ask, offered, question), question, degraded)

    def _answered(self, ask: PreferredRequest, ids: Sequence[DeviceId], requester: Requester | None) -> None:
        self._node_state.answered(
            ask.resource, ids, requester=requester, asked_at_seconds=ask.asked_at_seconds
        )

    @property
    def _known_specs(self) -> Specs:
        return self._cluster.specs if self._cluster else NO_SPECS

    async def _specs(self, ask: PreferredRequest) -> Specs:
        """Return the known specs; wait a moment for one that is missing, as that of a new pod may be."""
        known = self._known_specs.pods
        missing = [key for key in self._node_state.now.candidates(ask.resource) if key not in known]
        if missing and self._cluster is not None:
            timeout_seconds = ask.settings.deadline_seconds * SPECS_SHARE
            await self._cluster.arrived(missing, timeout_seconds=timeout_seconds)
        return self._known_specs

    def _place(self, ask: PreferredRequest, offered: frozenset[DeviceId], question: Question) -> Placement:
        requester, snapshot = question.requester or NOBODY, question.snapshot
        known = requester.attribution.request
        cpus = 0
        if ask.settings.follow_cpus and snapshot is not None:
            cpus = where_cpus_will_be(self._kubelet, requester.attribution, snapshot)
        return place(
            PlacementRequest(
                offered,
                ask.must_include,
                ask.size,
                Asker(requester.held, question.rest, None if known is None else frozenset(known), cpus),
                freed_at=question.freed_at,
            ),
            index=ask.index,
            topology=question.topology,
            snapshot=snapshot,
            options=ask.settings.options,
        )

    async def _refresh(self, settings: DecisionSettings) -> FallbackReason | None:
        """Get a List that is newer than this call; return what is lacking if there is none."""
        try:
            await self._poller.live(timeout_seconds=settings.deadline_seconds * LIVE_SHARE)
        except PeerError:
            return FallbackReason.STALE if self._poller.latest else FallbackReason.SNAPSHOT
        return None

    def _tell(self, ask: PreferredRequest, decision: _Decision, duration_seconds: float) -> None:
        if self._cluster is not None:
            self._cluster.decided(ask.resource, decision.placement)
        masks = [mask for one in decision.placement.ids if (mask := ask.index.mask.get(one, 0))]
        if masks:
            self._metrics.aligned(
                ask.resource, Alignment.ONE_NODE if reduce(and_, masks) else Alignment.SPLIT
            )
        placement, snapshot, pod = decision.placement, decision.question.snapshot, decision.requester.pod
        choice, asker = placement.choice, placement.asker
        shown = _shown(choice)
        self._log.info(
            "decision",
            resource=ask.resource,
            pod="/".join(pod) if pod else None,
            container=decision.requester.attribution.container,
            request=decision.requester.attribution.request,
            size=ask.size,
            offered=len(ask.available),
            ids=placement.ids,
            numa=None if choice.mask is None else nodes_of(choice.mask),
            structural=None if choice.structural is None else nodes_of(choice.structural),
            strategy=placement.strategy,
            outcome=placement.outcome,
            rule=choice.rule,
            why=why(placement),
            candidates=[
                {
                    "numa": nodes_of(candidate.mask),
                    "preferred": candidate.preferred,
                    "score": candidate.score,
                    "scores": candidate.scores,
                }
                for candidate in shown
            ],
            candidates_not_shown=len(choice.candidates) - len(shown),
            held=nodes_of(asker.held),
            rest=asker.rest,
            cpus=nodes_of(asker.cpus),
            degraded=decision.degraded,
            snapshot_age_ms=round(snapshot.age_seconds(self._clock()) * 1000, 1) if snapshot else None,
            duration_ms=round(duration_seconds * 1000, 2),
        )


def _shown(choice: MaskChoice) -> list[Candidate]:
    """Return the candidates for the log, the chosen one first: on a large node there may be hundreds."""
    ordered = sorted(choice.candidates, key=lambda candidate: candidate.mask != choice.mask)
    return ordered[:MAX_LOGGED_CANDIDATES]
