"""Why nothing may be withheld now, whatever a prediction says.

After a kubelet's start it admits its pods again, and they must find their devices' topology: a container that
has devices gets its hints anew, from the topology that is published of just these devices (device manager,
GetTopologyHints). List shows a pod only once the kubelet knows it, which for those of the API server may be
long after its start: until then their devices read as free, and to withhold their topology would have running
pods refused. So nothing is withheld until List shows all that was in use before. What that was, the kubelet's
own checkpoint says; where it cannot be read, what List showed last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from numaplace.daemon.steering.context import SteeringContext
from numaplace.daemon.steering.kubelet_probe import NOT_ASKED, KubeletProbe
from numaplace.daemon.steering.quiescence import Quiescence
from numaplace.daemon.steering.report import Passing
from numaplace.daemon.steering.settings import Settings
from numaplace.model.names import IdsByResource, PodKey, ResourceName
from numaplace.steering.choose import choose
from numaplace.steering.decision import Reason
from numaplace.steering.triggers import NOT_KNOWN, Decided, refused


class WrittenDown(Protocol):
    """The devices in use according to the kubelet's checkpoint (``kubelet.checkpoint``)."""

    @property
    def devices(self) -> IdsByResource | None: ...

    async def refresh(self) -> bool:
        """Return whether they may have changed; ``TimeoutError``: they could not be read in time."""


@dataclass(slots=True)
class BreakerBox:
    """The circuit breaker: after a pod was refused while something was withheld, nothing is for some time.

    It outlives a node: a changed configuration does not close it. ``pod`` was refused last; ``trips`` counts
    how often it opened.
    """

    trips: int = 0
    open_until_seconds: float | None = None
    pod: str = ""

    def trip(self, pod: PodKey, *, until_seconds: float) -> None:
        self.trips, self.open_until_seconds, self.pod = self.trips + 1, until_seconds, "/".join(pod)

    def left_seconds(self, now_seconds: float) -> float | None:
        left = (self.open_until_seconds or now_seconds) - now_seconds
        return left if left > 0 else None


class Suspension:
    """Suspended at first: the daemon may have been started together with the kubelet."""

    def __init__(
        self,
        context: SteeringContext,
        *,
        probe: KubeletProbe,
        quiescence: Quiescence,
        checkpoint: WrittenDown,
        breaker: BreakerBox,
    ) -> None:
        self._context = context
        self._probe = probe
        self._quiescence = quiescence
        self._checkpoint = checkpoint
        self._breaker = breaker
        self._restarted_at: float | None = context.clock()
        self._in_use_before: IdsByResource = {}
        self._missing: tuple[ResourceName, ...] = ()
        self._unread = False

    def kubelet_lost(self) -> None:
        if self._restarted_at is None:
            self._in_use_before = {name: self._context.in_use(name) for name in self._context.resources()}
        self._restarted_at, self._missing, self._unread = self._context.clock(), (), False

    def kubelet_returned(self) -> None:
        if self._restarted_at is not None:
            self._restarted_at = self._context.clock()

    def trip(self, pod: PodKey, *, backoff_seconds: float) -> Decided:
        self._breaker.trip(pod, until_seconds=self._context.clock() + backoff_seconds)
        return refused(Reason.HELD_OFF, self._breaker.pod)

    @property
    def breaker_left_seconds(self) -> float | None:
        return self._breaker.left_seconds(self._context.clock())

    @property
    def trips(self) -> int:
        return self._breaker.trips

    async def read(self) -> None:
        before = self._context.state
        try:
            changed = await self._checkpoint.refresh()
        except TimeoutError:
            self._unread = True
            return
        self._unread = False
        if changed:
            self._context.node.written(self._checkpoint.devices, since=before)

    def update(self, settings: Settings) -> Decided | None:
        """End the suspension after a kubelet's start, if it is over; return ``why``."""
        off = self.off(settings)
        if off is not None:
            return off
        if self._restarted_at is not None:
            self._missing = self._held_and_not_listed() if self._quiescence.quiet else ()
            over = self._context.clock() - self._restarted_at >= self._context.times.restart_seconds
            if self._quiescence.quiet and (over or not (self._missing or self._unread)):
                self._restarted_at, self._in_use_before, self._missing = None, {}, ()
        return self._for_now(settings)

    def why(self, settings: Settings) -> Decided | None:
        return self.off(settings) or self._for_now(settings)

    def off(self, settings: Settings) -> Decided | None:
        if self._probe.known == NOT_ASKED:
            # Another kubelet has started while the one before it was asked: that says nothing of this node.
            return refused(Reason.KUBELET_STARTED)
        if self._context.state.observation is None:
            # What the kubelet hands out is a part of what is to be known of it.
            return refused(Reason.STATE_UNKNOWN, Passing.NO_LIST)
        decision = choose(self._probe.model, NOT_KNOWN, (), settings=settings.choice)
        lasting = any(one.reason is not Reason.STATE_UNKNOWN for one in decision.refusals)
        return Decided(decision) if lasting else None

    def _held_and_not_listed(self) -> tuple[ResourceName, ...]:
        written = self._checkpoint.devices
        expected = self._in_use_before if written is None else written
        return tuple(
            resource
            for resource in sorted(self._context.resources())
            if expected.get(resource, frozenset()) - self._context.in_use(resource)
        )

    def _for_now(self, settings: Settings) -> Decided | None:
        now, seen = self._context.clock(), self._context.state.observation
        if self._breaker.left_seconds(now) is not None:
            return refused(Reason.HELD_OFF, self._breaker.pod)
        if seen is not None and now - seen.taken_at_seconds > settings.stale_seconds:
            return refused(Reason.STATE_UNKNOWN, "PodResources no longer answers")
        if self._restarted_at is None:
            return None
        what = ""
        if self._unread:
            what = "its checkpoint cannot be read in time"
        elif self._missing:
            what = f"List does not show all pods yet that hold {', '.join(self._missing)}"
        return refused(Reason.KUBELET_STARTED, what)

    def times(self, settings: Settings) -> Iterator[float]:
        seen = self._context.state.observation
        if seen is not None:
            yield seen.taken_at_seconds + settings.stale_seconds
        if self._breaker.open_until_seconds is not None:
            yield self._breaker.open_until_seconds
