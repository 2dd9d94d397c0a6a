"""Why nothing may be withheld now, whatever a prediction says."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from numaplace.daemon.node_state import NodeStateHolder
from numaplace.daemon.steering.kubelet_restart import KubeletRestart
from numaplace.daemon.steering.log import Passing
from numaplace.daemon.steering.quiescence import Quiescence
from numaplace.daemon.steering.requests import NOT_ASKED, SteeringFacts
from numaplace.daemon.steering.settings import SteeringRuntimeSettings
from numaplace.model.names import DeviceId, PodKey, ResourceName
from numaplace.steering.breaker import Breaker
from numaplace.steering.choose import choose
from numaplace.steering.decision import Reason
from numaplace.steering.triggers import NOT_KNOWN, Decided, refused


@dataclass(slots=True)
class BreakerBox:
    """Keeps the breaker from one node to the next: a changed configuration does not close it."""

    breaker: Breaker = field(default_factory=Breaker)
    pod: str = ""


class Suspension:
    """``ours`` are the resources in service. A List older than ``stale_seconds`` is not gone by."""

    def __init__(
        self,
        ours: Callable[[], Collection[ResourceName]],
        *,
        facts: SteeringFacts,
        keeper: NodeStateHolder,
        pace: Quiescence,
        hold: KubeletRestart,
        box: BreakerBox,
        clock: Callable[[], float],
        stale_seconds: float,
    ) -> None:
        self._ours = ours
        self._facts = facts
        self._keeper = keeper
        self._pace = pace
        self._hold = hold
        self._box = box
        self._clock = clock
        self._stale_seconds = stale_seconds

    async def read(self) -> None:
        """Have the kubelet's own account of the devices that it holds read, if it is another one now."""
        if await self._hold.checkpoint.refresh():
            self._keeper.written(self._hold.checkpoint.devices)

    def why(self) -> Decided | None:
        """Return the decision to withhold nothing, if there is a reason."""
        now, seen = self._clock(), self._keeper.now.observation
        if self.breaker_left_seconds is not None:
            return refused(Reason.HELD_OFF, self._box.pod)
        if seen is not None and now - seen.taken_at_seconds > self._stale_seconds:
            return refused(Reason.STATE_UNKNOWN, "PodResources does not answer any more")
        if self._hold.since_seconds is None:
            return None
        if not self._pace.quiet:
            return refused(Reason.KUBELET_STARTED)
        missing = self._hold.waits_for(self.in_use, self._ours())
        if not missing:
            return None
        names = ", ".join(sorted(missing))
        return refused(Reason.KUBELET_STARTED, f"it does not list all pods yet that hold {names}")

    def stands_still(self, settings: SteeringRuntimeSettings) -> bool:
        """Return whether nothing is decided at all now: for one of these reasons, or on such a node."""
        return self.why() is not None or self.off(settings) is not None

    def off(self, settings: SteeringRuntimeSettings) -> Decided | None:
        """Return the decision to withhold nothing on a node like this, whatever its pods hold, if so."""
        if self._facts.known is NOT_ASKED:
            # Another kubelet has started while the one before it was asked: that says nothing of this node.
            return refused(Reason.KUBELET_STARTED)
        if self._keeper.now.observation is None:
            # What the kubelet hands out is a part of what is to be known of it.
            return refused(Reason.STATE_UNKNOWN, Passing.NO_LIST)
        node = self._facts.node(frozenset(self._ours()))
        decision = choose(node, NOT_KNOWN, (), settings=settings.choice)
        lasting = any(one.reason is not Reason.STATE_UNKNOWN for one in decision.refusals)
        return Decided(decision) if lasting else None

    def times(self) -> Iterator[float]:
        """Yield when a reason comes or goes by itself."""
        seen = self._keeper.now.observation
        if seen is not None:
            yield seen.taken_at_seconds + self._stale_seconds
        if self._box.breaker.open_until_seconds is not None:
            yield self._box.breaker.open_until_seconds

    def kubelet_lost(self) -> None:
        """Note that the kubelet follows a resource no more, or is another one."""
        self._hold.lost({name: self.in_use(name) for name in self._ours()})

    def kubelet_returned(self) -> None:
        """Note an accepted registration."""
        self._hold.returned()

    def trip(self, pod: PodKey, *, backoff_seconds: float) -> str:
        """Open the circuit breaker; return the pod's name."""
        self._box.pod = "/".join(pod)
        self._box.breaker = self._box.breaker.tripped(
            now_seconds=self._clock(), backoff_seconds=backoff_seconds
        )
        return self._box.pod

    @property
    def breaker_left_seconds(self) -> float | None:
        """How long the circuit breaker stays open; ``None`` when it is closed."""
        return self._box.breaker.left_seconds(self._clock())

    @property
    def trips(self) -> int:
        """How often it has opened."""
        return self._box.breaker.trips

    def in_use(self, resource: ResourceName) -> frozenset[DeviceId]:
        """Return the ids in use; nothing is withheld before that is known."""
        return self._keeper.now.in_use(resource) or frozenset()
