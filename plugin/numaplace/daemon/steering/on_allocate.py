"""The set for the next admission, worked out while the kubelet waits for Allocate's answer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from numaplace.daemon.steering.context import SteeringContext
from numaplace.daemon.steering.effects import Granted, InForce, SteeredGrants
from numaplace.daemon.steering.kubelet_probe import KubeletProbe
from numaplace.daemon.steering.publisher import Publisher
from numaplace.daemon.steering.requests import PossibleRequests
from numaplace.daemon.steering.settings import Settings
from numaplace.errors import PeerError
from numaplace.kubelet.podresources.poller import LIVE_SHARE
from numaplace.metrics.labels import SteeringFailure
from numaplace.model.names import Strategy
from numaplace.prediction.model import KubeletModel
from numaplace.state.snapshot import Snapshot
from numaplace.steering.admission.init_containers import why_unknown
from numaplace.steering.decision import WithoutSteering
from numaplace.steering.triggers import (
    Decided,
    GrantSeen,
    RequestsInForce,
    decision_on_allocate,
    possible_holdings_of,
)


class NoSetError(Exception):
    """There is no set, for a ``reason`` that counts as a failure."""

    def __init__(self, reason: SteeringFailure, what: str) -> None:
        super().__init__(what)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class NextDecision:
    """A decision for the next admission, and what it is for."""

    decided: Decided
    model: KubeletModel
    requests: RequestsInForce


class NextAdmission:
    """Decides after a grant that the node's state counts already."""

    def __init__(
        self,
        context: SteeringContext,
        probe: KubeletProbe,
        *,
        requests: PossibleRequests,
        publisher: Publisher,
    ) -> None:
        self._context = context
        self._probe = probe
        self._requests = requests
        self._publisher = publisher
        self._container_basis: InForce | None = None
        self._steered = SteeredGrants()

    def granted_anew(self, granted: Granted) -> None:
        self._steered.granted_anew(granted)

    def without_steering(self, granted: Granted) -> WithoutSteering | None:
        return self._steered.without_steering(granted)

    async def decide(
        self, granted: Granted, settings: Settings, *, since_seconds: float, basis: InForce | None
    ) -> NextDecision:
        """Return the decision. ``basis`` is of the set in force. ``NoSetError`` if there is no List in time.

        A List sent after ``since_seconds`` shows the pod under admission.
        """
        withheld = self._publisher.withheld
        await self._get_list(settings, since_seconds)
        context, model, (resource, ids) = self._context, self._probe.model, granted
        state, specs, snapshot = context.state, context.specs, context.snapshot
        if snapshot is None:
            raise NoSetError(SteeringFailure.NO_LIST, "PodResources has not answered yet")
        requests = self._requests.update(model, settings)
        grant = GrantSeen(resource, ids, state.granted_to(resource, len(ids), specs=specs))
        started = context.clock()
        unlisted = state.unshown(but=granted)
        unknown = why_unknown(snapshot, model, unlisted=unlisted, specs=specs, but=state.moving)
        choice = settings.choice
        decided = decision_on_allocate(
            model,
            snapshot,
            grant,
            requests=requests,
            settings=choice,
            withheld=withheld,
            unknown=unknown,
        )
        context.report.computed(decided.decision, duration_seconds=context.clock() - started)
        strategy = choice.strategies.get(resource, choice.strategy)
        self._compare_later(grant, snapshot, basis, strategy=strategy)
        return NextDecision(decided, model, requests)

    async def _get_list(self, settings: Settings, since_seconds: float) -> None:
        seen = self._context.state.observation
        if seen is not None and seen.taken_at_seconds >= since_seconds:
            return
        try:
            await self._context.lists.live(timeout_seconds=settings.deadline_seconds * LIVE_SHARE)
        except PeerError as error:
            what = f"PodResources did not answer during Allocate: {error}"
            raise NoSetError(SteeringFailure.NO_LIST, what) from error

    def _compare_later(
        self, grant: GrantSeen, snapshot: Snapshot, basis: InForce | None, *, strategy: Strategy
    ) -> None:
        """Compare with the kubelet alone, while the next set is being delivered: that goes first."""
        found = possible_holdings_of(snapshot, grant)
        if len(found[0].held) > 1:
            # The Topology Manager decided on the container before its first resource was granted.
            basis = self._container_basis
        self._container_basis = basis
        if basis is None or grant.resource not in basis.decision.withheld:
            return
        mask, used = found[-1].mask, basis

        def compare() -> None:
            otherwise = self._steered.note((grant.resource, grant.ids), mask=mask, basis=used)
            self._context.report.grant(
                grant.resource, grant.ids, mask=mask, otherwise=otherwise, strategy=strategy
            )

        asyncio.get_running_loop().call_soon(compare)
