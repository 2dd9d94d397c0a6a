"""Steering: which topology is withheld, when that is decided again, and what happens on errors.

- **At Allocate** the set for the next admission is worked out and has left on ListAndWatch before the answer:
  the kubelet admits the next pod right after it. That takes a List sent since the kubelet's call.
- **At rest**, when nothing has been under admission for a moment and a List shows it: pods without devices of
  ours have come, pods have gone, devices have turned unhealthy.
- In between nothing new is withheld; everything is exposed if the set in force is no longer right.

Exposing everything is always right: it is what the kubelet has without steering. So that is the answer to
every uncertainty: errors, time-outs, an unknown state, a kubelet that has just started, and a pod that the
kubelet has refused while something was withheld (the circuit breaker). An Allocate is never failed, and
delayed by ``deadline_seconds`` at most.

At the daemon's end nothing is sent: the kubelet takes all devices for unhealthy then. The next daemon begins
with everything exposed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator

from numaplace.daemon.steering.at_rest import AtRest
from numaplace.daemon.steering.context import SteeringContext
from numaplace.daemon.steering.effects import Granted, InForce
from numaplace.daemon.steering.kubelet_probe import KubeletProbe, KubeletSource
from numaplace.daemon.steering.on_allocate import NextAdmission, NoSetError
from numaplace.daemon.steering.publisher import Publisher
from numaplace.daemon.steering.quiescence import Quiescence
from numaplace.daemon.steering.report import Passing
from numaplace.daemon.steering.requests import PossibleRequests
from numaplace.daemon.steering.settings import Settings
from numaplace.daemon.steering.status import SteeringStatus
from numaplace.daemon.steering.suspension import BreakerBox, Suspension, WrittenDown
from numaplace.metrics.labels import SteeringFailure
from numaplace.model.names import DeviceId, PodKey, ResourceName
from numaplace.prediction.model import KubeletModel
from numaplace.steering.admission.announced import invalidates
from numaplace.steering.decision import Reason, SteeringDecision, WithoutSteering
from numaplace.steering.triggers import Decided, RequestsInForce, refused


class SteeringController:
    """Steers for all resources in service. ``breaker`` outlives it."""

    def __init__(
        self,
        context: SteeringContext,
        settings: Settings,
        *,
        kubelet: KubeletSource,
        checkpoint: WrittenDown,
        breaker: BreakerBox,
    ) -> None:
        self._context = context
        self._settings = settings
        self._probe = KubeletProbe(kubelet, context)
        self._possible = PossibleRequests(context)
        self._quiescence = Quiescence(context)
        self._suspension = Suspension(
            context, probe=self._probe, quiescence=self._quiescence, checkpoint=checkpoint, breaker=breaker
        )
        self.publisher = Publisher(context)
        self._next = NextAdmission(context, self._probe, requests=self._possible, publisher=self.publisher)
        self._wake = asyncio.Event()
        self._running = False
        self._retry_at = context.clock()
        self._decided = refused(Reason.STATE_UNKNOWN, Passing.UNDECIDED)
        self._requests = RequestsInForce()
        self._seen: AtRest | None = None
        self._basis: InForce | None = None

    def reload(self, settings: Settings) -> None:
        self._settings = settings
        self.reset()

    def wake(self) -> None:
        self._wake.set()

    def pods_changed(self) -> None:
        """Decide again: the API server has announced a pod, which may be admitted at any moment."""
        ended, basis = self._possible.pods_changed(), self._basis
        if basis is not None and basis.decision.withheld and (ended or self._possible.coming()):
            self._quiescence.expect()
            if self._is_invalid(basis, self._requests):
                self._expose(refused(Reason.UNDER_ADMISSION))
        self._wake.set()

    def active(self) -> None:
        self._quiescence.active()

    def lost_alignment(self, resource: ResourceName) -> bool:
        """Return whether a set came into force under a container that the kubelet had placed before.

        That is so where it offers hidden devices beside shown ones, unless the policy admits what is not
        aligned. Everything is exposed then.
        """
        if not self._probe.model.refuses:
            return False
        what = f"devices of {resource} were hidden from a container that was to get them"
        self._failed(SteeringFailure.ALIGNMENT, what)
        return True

    def reset(self) -> None:
        """Expose everything and decide again: devices, resources or settings have changed."""
        self.publisher.devices_changed()
        self._expose(refused(Reason.STATE_UNKNOWN, Passing.CHANGED))

    def kubelet_lost(self) -> None:
        self._quiescence.active()
        self._suspension.kubelet_lost()
        self._probe.kubelet_lost()
        self._expose(refused(Reason.KUBELET_STARTED))

    def kubelet_returned(self) -> None:
        self._quiescence.active()
        self._suspension.kubelet_returned()
        self._wake.set()

    def pod_refused(self, pod: PodKey, resources: Collection[ResourceName]) -> None:
        """Open the circuit breaker, if steering may be the cause; ``resources`` are what the pod requests."""
        backoff_seconds = self._settings.backoff_seconds
        if not self._settings.on or not self.publisher.lately_withheld(resources):
            return
        held_off = self._suspension.trip(pod, backoff_seconds=backoff_seconds)
        self._context.report.tripped(pod, self._decided.decision, backoff_seconds=backoff_seconds)
        self._expose(held_off)

    async def deliver_next(
        self, resource: ResourceName, ids: Collection[DeviceId], *, since_seconds: float
    ) -> None:
        """Have the set for the next admission delivered after a grant; raises nothing.

        The grant is in the node's state. A List sent after ``since_seconds`` shows the pod under admission.
        """
        settings, granted = self._settings, (resource, frozenset(ids))
        self._quiescence.active()
        self._next.granted_anew(granted)
        try:
            if settings.on and self._running and self._suspension.why(settings) is None:
                async with asyncio.timeout(settings.deadline_seconds):
                    await self._follow(granted, settings, since_seconds=since_seconds)
        except NoSetError as error:
            self._failed(error.reason, str(error))
        except asyncio.CancelledError:
            # The kubelet, or our server, has given up the call; a change may have been sent in part.
            self._expose(refused(Reason.UNDER_ADMISSION))
            raise
        except TimeoutError:
            self._failed(SteeringFailure.DEADLINE, f"no decision within {settings.deadline_seconds} s")
        except Exception as exc:  # noqa: BLE001 - an error would fail the pod
            self._failed(SteeringFailure.ERROR, repr(exc), exc)
        finally:
            self._quiescence.active()
            self._wake.set()

    def without_steering(self, resource: ResourceName, ids: Collection[DeviceId]) -> WithoutSteering | None:
        return self._next.without_steering((resource, frozenset(ids)))

    @property
    def kubelet_model(self) -> KubeletModel:
        return self._probe.model

    @property
    def status(self) -> SteeringStatus:
        return SteeringStatus(
            self._probe.known,
            self._decided.decision,
            self._suspension.breaker_left_seconds,
            self._suspension.trips,
            self._requests.source,
            self._quiescence.quiet,
        )

    async def run(self) -> None:
        self.start()
        try:
            while True:
                self._wake.clear()
                await self.look()
                await self._quiescence.wait(self._wake, self._due_seconds())
        finally:
            self._running = False
            self._expose(refused(Reason.STATE_UNKNOWN, Passing.STOPPED))

    def start(self) -> None:
        """Follow Allocates from now on; ``look`` must be called at rest."""
        self._running = True

    async def look(self) -> None:
        """Decide, if it is time. Inputs are read first, so that all are of one moment."""
        await self._probe.ask()
        if self._settings.on and self._suspension.off(self._settings) is None:
            await self._quiescence.ask_for_list()
            await self._suspension.read()
        settings = self._settings
        if not settings.on:
            self._possible.off()
            self._expose(Decided(SteeringDecision()), log=False)
            self._wake.clear()
            return
        suspended = self._suspension.update(settings)
        if suspended is None:
            await self._decide_at_rest(settings)
        elif suspended != self._decided or self.publisher.withheld:
            self._expose(suspended)

    async def _decide_at_rest(self, settings: Settings) -> None:
        model, context = self._probe.model, self._context
        requests = self._possible.update(model, settings)
        if self._quiescence.busy:
            if requests != self._requests and self.publisher.withheld:
                # Another request may be next, and the set in force was not tried with it.
                self._expose(refused(Reason.UNDER_ADMISSION))
            return
        coming = self._possible.coming()
        seen = AtRest.now(
            context, self._quiescence, model=model, requests=requests, settings=settings, coming=coming
        )
        if seen == self._seen or self._context.clock() < self._retry_at:
            return
        snapshot = context.snapshot
        if snapshot is None:
            return
        decided = seen.decide(snapshot, context)
        following, withheld = decided.decision.withheld, self.publisher.withheld
        ready = seen.may_follow(withheld, following)
        if not ready and following != withheld:
            self._expose(refused(Reason.UNDER_ADMISSION))
        self._requests, self._seen = requests, seen
        if not ready:
            return
        try:
            # Logged at rest only: after a grant it changes again within moments.
            context.report.in_force(decided.decision)
            await self._put(decided, model, requests, freed_too=seen.proved)
        except NoSetError as error:
            self._retry_at = self._context.clock() + context.times.set_retry_seconds
            self._failed(error.reason, str(error))

    async def _follow(self, granted: Granted, settings: Settings, *, since_seconds: float) -> None:
        found = await self._next.decide(granted, settings, since_seconds=since_seconds, basis=self._basis)
        if self._settings != settings or self._suspension.why(settings) is not None:
            return
        self._seen = None
        await self._put(found.decided, found.model, found.requests)

    async def _put(
        self, decided: Decided, model: KubeletModel, requests: RequestsInForce, *, freed_too: bool = True
    ) -> None:
        """Put a decision in force; ``NoSetError`` if the kubelet does not take the lists in time."""
        basis = None if decided.state is None else InForce(decided.decision, model, decided.state)
        if basis is not None and self._is_invalid(basis, requests):
            self._quiescence.expect()
            decided, basis = refused(Reason.UNDER_ADMISSION), None
        self._decided, self._requests, self._basis = decided, requests, basis
        taken = await self.publisher.change(decided.decision.withheld, freed_too=freed_too)
        if self._decided is not decided:
            return  # Another decision has come meanwhile, a failure perhaps.
        if not taken:
            raise NoSetError(SteeringFailure.UNDELIVERED, "the kubelet did not take a device list in time")
        self._retry_at = self._context.clock()
        self._context.report.worked()

    def _is_invalid(self, basis: InForce, requests: RequestsInForce) -> bool:
        withheld = basis.decision.withheld
        return bool(withheld) and invalidates(
            self._possible.coming(), basis.model, basis.state, requests=requests.requests, withheld=withheld
        )

    def _expose(self, decided: Decided, *, log: bool = True) -> None:
        self._decided, self._basis, self._seen = decided, None, None
        self.publisher.expose_all()
        if log:
            self._context.report.in_force(decided.decision)
        self._wake.set()

    def _failed(self, reason: SteeringFailure, what: str, exc: BaseException | None = None) -> None:
        self._context.report.failed(reason, what, exc)
        self._expose(refused(Reason.FAILED, what))

    def _due_seconds(self) -> Iterator[float | None]:
        yield self._probe.due_seconds
        settings, now = self._settings, self._context.clock()
        if settings.on:
            yield from (one for one in (*self._suspension.times(settings), self._retry_at) if one > now)
            yield None if self._suspension.off(settings) else self._quiescence.list_due_seconds
