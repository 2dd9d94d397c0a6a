"""Steering: which topology is withheld, when that is decided anew, and what happens on errors.

- **At Allocate** the set for the next admission is worked out and has left on ListAndWatch before the answer:
  the kubelet admits the next pod right after it. That takes a List sent since the kubelet's call.
- **At rest**, when nothing has been under admission for a moment and a List shows it: pods without devices of
  ours have come, pods have gone, devices have turned unhealthy. A List is asked for soon after an Allocate.
- In between nothing new is withheld; everything is exposed if the set in force is not right any more.

Exposing everything is always right: it is what the kubelet has without steering. So that is the answer to
every doubt: errors, time-outs, an unknown state, a kubelet that has just started, and a pod that the kubelet
has refused while something was withheld (the circuit breaker). An Allocate is never failed, and delayed by
``deadline_seconds`` at most.

At the daemon's end nothing is sent: the kubelet takes all devices for unhealthy then, and gives none away
until a daemon registers again, which begins with everything exposed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping

from numaplace.daemon.node_state import NodeStateHolder
from numaplace.daemon.steering.at_rest import AtRest
from numaplace.daemon.steering.effects import InForce
from numaplace.daemon.steering.log import Passing, SteeringLog
from numaplace.daemon.steering.on_allocate import GrantFollower, NoSetError
from numaplace.daemon.steering.publisher import PublishedResource, Publisher
from numaplace.daemon.steering.quiescence import Quiescence
from numaplace.daemon.steering.requests import SteeringFacts
from numaplace.daemon.steering.settings import SteeringRuntimeSettings
from numaplace.daemon.steering.status import SteeringStatus
from numaplace.daemon.steering.suspension import Suspension
from numaplace.metrics.labels import SteeringFailure
from numaplace.metrics.steering import SteeringMetrics
from numaplace.model.names import DeviceId, PodKey, ResourceName
from numaplace.prediction.model import KubeletModel
from numaplace.steering.admission.announced import upsets
from numaplace.steering.decision import Reason, SteeringDecision, WithoutSteering
from numaplace.steering.triggers import Decided, RequestsInForce, refused

RETRY_SECONDS = 5.0
"""A set that could not be delivered is tried again after this time."""


class SteeringController:
    """Steers for all resources in service; made of its parts by ``steering_parts.steerer_of``."""

    def __init__(
        self,
        resources: Callable[[], Mapping[ResourceName, PublishedResource]],
        *,
        settings: Callable[[], SteeringRuntimeSettings],
        facts: SteeringFacts,
        keeper: NodeStateHolder,
        pace: Quiescence,
        standstill: Suspension,
        exposure: Publisher,
        follower: GrantFollower,
        metrics: SteeringMetrics,
        log: SteeringLog,
        clock: Callable[[], float],
    ) -> None:
        self._resources = resources
        self._settings = settings
        self._facts = facts
        self._keeper = keeper
        self._pace = pace
        self._standstill = standstill
        self._exposure = exposure
        self._follower = follower
        self._metrics = metrics
        self._log = log
        self._clock = clock
        self._wake = asyncio.Event()
        self._running = False
        self._retry_at = clock()
        self._decided = refused(Reason.STATE_UNKNOWN, Passing.UNDECIDED)
        self._requests = RequestsInForce()
        self._seen: AtRest | None = None
        self._basis: InForce | None = None

    def wake(self) -> None:
        """Look again: there is a new List, or a pod has changed."""
        self._wake.set()

    def pods_changed(self) -> None:
        """Look again: the API server has told of a pod, which may be admitted at any moment."""
        ended, basis = self._facts.told(), self._basis
        if basis is not None and basis.decision.withheld and (ended or self._facts.coming()):
            self._pace.expect()
            if self._upset(basis, self._requests):
                self._expose(refused(Reason.UNDER_ADMISSION))
        self._wake.set()

    def active(self) -> None:
        """Note that a container is under admission."""
        self._pace.active()

    def lost_alignment(self, resource: ResourceName) -> bool:
        """Return whether a set came into force under a container that the kubelet had placed before.

        That is so where it offers hidden devices beside shown ones, unless the policy admits what is not
        aligned. Everything is exposed then.
        """
        if not self.kubelet_node().refuses:
            return False
        what = f"devices of {resource} were hidden from a container that was to get them"
        self._failed(SteeringFailure.ALIGNMENT, what)
        return True

    def reset(self) -> None:
        """Expose everything and decide anew: devices, resources or settings have changed."""
        self._exposure.devices_changed()
        self._expose(refused(Reason.STATE_UNKNOWN, Passing.CHANGED))

    def kubelet_lost(self) -> None:
        """Expose everything: the kubelet follows a resource no more, or it is another one."""
        self._pace.active()
        self._standstill.kubelet_lost()
        self._facts.forget()
        self._expose(refused(Reason.KUBELET_STARTED))

    def kubelet_returned(self) -> None:
        """Note an accepted registration."""
        self._pace.active()
        self._standstill.kubelet_returned()
        self._wake.set()

    def pod_refused(self, pod: PodKey, resources: Collection[ResourceName]) -> None:
        """Open the circuit breaker, if it may be our doing; ``resources`` are what the pod asks for."""
        settings = self._settings()
        if not settings.on or not self._exposure.lately_withheld(resources):
            return
        name = self._standstill.trip(pod, backoff_seconds=settings.backoff_seconds)
        self._metrics.tripped()
        self._log.tripped(name, self._decided.decision, backoff_seconds=settings.backoff_seconds)
        self._expose(refused(Reason.HELD_OFF, name))

    async def granted(
        self, resource: ResourceName, ids: Collection[DeviceId], *, since_seconds: float
    ) -> None:
        """Have the next set delivered after a grant that the keeper knows; raises nothing.

        A List sent after ``since_seconds`` shows the pod under admission.
        """
        settings = self._settings()
        self._pace.active()
        self._follower.forget(resource, frozenset(ids))
        try:
            if settings.on and self._running and not self._standstill.stands_still(settings):
                async with asyncio.timeout(settings.deadline_seconds):
                    await self._follow(resource, frozenset(ids), settings, since_seconds=since_seconds)
        except NoSetError as error:
            self._failed(error.reason, str(error))
        except asyncio.CancelledError:
            # The kubelet, or our server, has given up the call; perhaps half of a change had been sent.
            self._expose(refused(Reason.UNDER_ADMISSION))
            raise
        except TimeoutError:
            self._failed(SteeringFailure.DEADLINE, f"no set within {settings.deadline_seconds} s")
        except Exception as exc:  # noqa: BLE001 - an error would fail the pod
            self._failed(SteeringFailure.ERROR, repr(exc), exc)
        finally:
            self._pace.active()
            self._wake.set()

    def steered(self, resource: ResourceName, ids: Collection[DeviceId]) -> WithoutSteering | None:
        """Return where the kubelet would have placed a grant without steering, if that is elsewhere."""
        return self._follower.stock(resource, frozenset(ids))

    def kubelet_node(self) -> KubeletModel:
        """Return what is known of the kubelet, whether steering is on or not."""
        return self._facts.node(frozenset(self._resources()))

    def status(self) -> SteeringStatus:
        """Return what is in force."""
        return SteeringStatus(
            self._facts.known,
            self._decided.decision,
            self._standstill.breaker_left_seconds,
            self._standstill.trips,
            self._requests.source,
        )

    async def run(self) -> None:
        """Decide at rest until cancelled."""
        self._running = True
        try:
            while True:
                self._wake.clear()
                await self._look()
                await self._pace.wait(self._wake, self._times())
        finally:
            self._running = False
            self._expose(refused(Reason.STATE_UNKNOWN, Passing.STOPPED))

    async def _look(self) -> None:
        """Get what is to be known first: from there on all is of one moment, the settings, too."""
        await self._facts.ask()
        settings = self._settings()
        if settings.on and self._standstill.off(settings) is None:
            await self._pace.ask_for_list()
            await self._standstill.read()
            settings = self._settings()
        if not settings.on:
            self._facts.idle()
            self._expose(Decided(SteeringDecision()), tell=False)
            self._wake.clear()
            return
        held = self._standstill.off(settings)
        if held is None:
            held = self._standstill.why()
        if held is not None:
            if held != self._decided or self._exposure.withheld:
                self._expose(held)
            return
        await self._decide_at_rest(settings)

    async def _decide_at_rest(self, settings: SteeringRuntimeSettings) -> None:
        node = self.kubelet_node()
        requests = self._facts.requests(node, settings)
        if self._pace.busy:
            if requests != self._requests and self._exposure.withheld:
                # Another request may be next, and the set in force was not tried with it.
                self._expose(refused(Reason.UNDER_ADMISSION))
            return
        state = self._keeper.now
        seen = AtRest.now(state, self._facts, self._pace, node=node, requests=requests, settings=settings)
        if seen == self._seen or self._clock() < self._retry_at:
            return
        snapshot = state.snapshot()
        if snapshot is None:
            return
        started = self._clock()
        decided = seen.decide(snapshot, specs=self._facts.specs, moving=state.moving)
        self._metrics.decided(decided.decision, duration_seconds=self._clock() - started)
        following, withheld = decided.decision.withheld, self._exposure.withheld
        ready = seen.may_follow(withheld, following)
        if not ready and following != withheld:
            self._expose(refused(Reason.UNDER_ADMISSION))
        self._requests, self._seen = requests, seen
        if not ready:
            return
        try:
            # Told at rest only: what a grant leads to is over in a moment.
            self._log.decided(decided.decision)
            await self._put(decided, node, requests, freed_too=seen.proved)
        except NoSetError as error:
            self._retry_at = self._clock() + RETRY_SECONDS
            self._failed(error.reason, str(error))

    async def _follow(
        self,
        resource: ResourceName,
        ids: frozenset[DeviceId],
        settings: SteeringRuntimeSettings,
        *,
        since_seconds: float,
    ) -> None:
        after = await self._follower.decide(
            resource,
            ids,
            since_seconds=since_seconds,
            steerable=frozenset(self._resources()),
            settings=settings,
            basis=self._basis,
        )
        if self._settings() is not settings or self._standstill.stands_still(settings):
            return
        self._seen = None
        await self._put(after.decided, after.node, after.requests)

    async def _put(
        self, decided: Decided, node: KubeletModel, requests: RequestsInForce, *, freed_too: bool = True
    ) -> None:
        """Put a decision in force; ``NoSetError`` if the kubelet does not take the lists in time."""
        basis = None if decided.state is None else InForce(decided.decision, node, decided.state)
        if basis is not None and self._upset(basis, requests):
            self._pace.expect()
            decided, basis = refused(Reason.UNDER_ADMISSION), None
        self._decided, self._requests, self._basis = decided, requests, basis
        taken = await self._exposure.change(decided.decision.withheld, freed_too=freed_too)
        if self._decided is not decided:
            # Another decision has come meanwhile, a failure perhaps: this one says nothing of it.
            return
        if not taken:
            raise NoSetError(SteeringFailure.UNDELIVERED, "the kubelet did not take a device list in time")
        self._retry_at = self._clock()
        self._log.worked()

    def _upset(self, basis: InForce, requests: RequestsInForce) -> bool:
        """Return whether a pod is about to come that the set is not right for."""
        withheld = basis.decision.withheld
        return bool(withheld) and upsets(
            self._facts.coming(), basis.node, basis.state, requests=requests.requests, withheld=withheld
        )

    def _expose(self, decided: Decided, *, tell: bool = True) -> None:
        """Withhold nothing, from now on and whatever is being changed."""
        self._decided, self._basis, self._seen = decided, None, None
        self._exposure.expose_all()
        if tell:
            self._log.decided(decided.decision)
        self._wake.set()

    def _failed(self, reason: SteeringFailure, what: str, exc: BaseException | None = None) -> None:
        self._metrics.failed(reason)
        self._log.failed(reason, what, exc)
        self._expose(refused(Reason.FAILED, what))

    def _times(self) -> Iterator[float | None]:
        """Yield when to look again though nothing has happened."""
        yield self._facts.ask_at_seconds
        settings, now = self._settings(), self._clock()
        if settings.on:
            yield from (one for one in (*self._standstill.times(), self._retry_at) if one > now)
            yield None if self._standstill.off(settings) else self._pace.list_at_seconds
