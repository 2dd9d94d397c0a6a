"""The set for the next admission, worked out and delivered while the kubelet waits for Allocate's answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from numaplace.daemon.node_state import NodeStateHolder
from numaplace.daemon.steering.effects import InForce, SteeredGrants
from numaplace.daemon.steering.log import SteeringLog
from numaplace.daemon.steering.publisher import Publisher
from numaplace.daemon.steering.requests import Steerable, SteeringFacts
from numaplace.daemon.steering.settings import SteeringRuntimeSettings
from numaplace.errors import PeerError
from numaplace.kubelet.podresources.poller import Poller
from numaplace.metrics.labels import SteeredEffect, SteeringFailure
from numaplace.metrics.steering import SteeringMetrics
from numaplace.model.names import DeviceId, ResourceName, Strategy
from numaplace.prediction.model import KubeletModel
from numaplace.state.snapshot import Snapshot
from numaplace.steering.admission.init_containers import why_unknown
from numaplace.steering.choose import choose
from numaplace.steering.decision import WithoutSteering
from numaplace.steering.triggers import (
    Decided,
    GrantSeen,
    RequestsInForce,
    grant_decision,
    possible_holdings_of,
)

LIVE_SHARE = 0.5
"""The part of the time for one Allocate that a List may take."""


class NoSetError(Exception):
    """There is no set, for a ``reason`` that counts as a failure."""

    def __init__(self, reason: SteeringFailure, what: str) -> None:
        super().__init__(what)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class AfterGrant:
    """A decision for the next admission, and what it is for."""

    decided: Decided
    node: KubeletModel
    requests: RequestsInForce


class GrantFollower:
    """Decides after a grant that the keeper knows."""

    def __init__(
        self,
        *,
        keeper: NodeStateHolder,
        poller: Poller,
        facts: SteeringFacts,
        exposure: Publisher,
        metrics: SteeringMetrics,
        log: SteeringLog,
        clock: Callable[[], float],
    ) -> None:
        self._keeper = keeper
        self._poller = poller
        self._facts = facts
        self._exposure = exposure
        self._metrics = metrics
        self._log = log
        self._clock = clock
        self._container_basis: InForce | None = None
        self._steered = SteeredGrants()

    def forget(self, resource: ResourceName, ids: frozenset[DeviceId]) -> None:
        """Forget what was noted of an earlier grant of these devices."""
        self._steered.forget(resource, ids)

    def stock(self, resource: ResourceName, ids: frozenset[DeviceId]) -> WithoutSteering | None:
        """Return where the kubelet would have placed a grant without steering, if that is elsewhere."""
        return self._steered.stock(resource, ids)

    async def decide(
        self,
        resource: ResourceName,
        ids: frozenset[DeviceId],
        *,
        since_seconds: float,
        steerable: Steerable,
        settings: SteeringRuntimeSettings,
        basis: InForce | None,
    ) -> AfterGrant:
        """Return the decision. ``basis`` is of the set in force. ``NoSetError`` if there is no List in time.

        A List sent after ``since_seconds`` shows the pod under admission.
        """
        withheld = self._exposure.withheld
        node = self._facts.node(steerable)
        await self._get_list(settings, since_seconds)
        specs = self._facts.specs
        state = self._keeper.now
        snapshot = state.snapshot()
        if snapshot is None:
            raise NoSetError(SteeringFailure.NO_LIST, "PodResources has not answered yet")
        requests = self._facts.requests(node, settings)
        grant = GrantSeen(resource, ids, state.granted_to(resource, len(ids), specs=specs))
        started = self._clock()
        unlisted = state.unshown(but=(resource, ids))
        unseen = why_unknown(snapshot, node, unlisted=unlisted, specs=specs, but=state.moving)
        if unseen is None:
            decided = grant_decision(
                node, snapshot, grant, requests=requests, settings=settings.choice, withheld=withheld
            )
        else:
            decided = Decided(choose(node, unseen, (), settings=settings.choice))
        self._metrics.decided(decided.decision, duration_seconds=self._clock() - started)
        choice = settings.choice
        strategy = choice.strategies.get(resource, choice.strategy)
        self._note_steered(grant, snapshot, basis, strategy=strategy)
        return AfterGrant(decided, node, requests)

    async def _get_list(self, settings: SteeringRuntimeSettings, since_seconds: float) -> None:
        seen = self._keeper.now.observation
        if seen is not None and seen.taken_at_seconds >= since_seconds:
            return
        try:
            await self._poller.live(timeout_seconds=settings.deadline_seconds * LIVE_SHARE)
        except PeerError as error:
            what = f"PodResources did not answer during Allocate: {error}"
            raise NoSetError(SteeringFailure.NO_LIST, what) from error

    def _note_steered(
        self, grant: GrantSeen, snapshot: Snapshot, basis: InForce | None, *, strategy: Strategy
    ) -> None:
        """Compare with the stock kubelet, after the answer has left."""
        found = possible_holdings_of(snapshot, grant)
        if len(found[0].held) > 1:
            # The Topology Manager looked at the container before its first resource was granted.
            basis = self._container_basis
        self._container_basis = basis
        if basis is None or grant.resource not in basis.decision.withheld:
            return
        mask, used = found[-1].mask, basis

        def note() -> None:
            stock = self._steered.note(grant.resource, grant.ids, mask=mask, basis=used)
            self._metrics.granted(
                grant.resource, SteeredEffect.SAME if stock is None else SteeredEffect.CHANGED
            )
            if stock is not None:
                self._log.steered(grant.resource, grant.ids, mask=mask, stock=stock, strategy=strategy)

        asyncio.get_running_loop().call_soon(note)
