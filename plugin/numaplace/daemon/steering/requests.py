"""What steering goes by: the kubelet's configuration, and the requests that may arrive."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Protocol

from numaplace.daemon.node_state import NodeState
from numaplace.daemon.steering.announced_pods import AnnouncedPods
from numaplace.daemon.steering.kubelet_probe import KnownKubelet
from numaplace.daemon.steering.settings import SteeringRuntimeSettings
from numaplace.engine.options import PolicyName
from numaplace.managers.pod import Pod
from numaplace.model.names import ResourceName
from numaplace.model.podresources import Allocatable, MemoryBlock
from numaplace.prediction.model import KubeletModel
from numaplace.prediction.request import is_compute
from numaplace.state.attribution import NO_SPECS, Specs
from numaplace.steering.learned_requests import LearnedRequests
from numaplace.steering.triggers import RequestsInForce

RETRY_SECONDS = 60.0
"""A kubelet whose configuration could not be asked for is asked again."""

REFUSED_RETRY_SECONDS = 900.0
"""Rights may be given later, and an API server that has just started refuses what it will allow."""

FIRST_RETRY_SECONDS = 1.0
"""After an exception, which may be over at once; doubled each time, up to ``RETRY_SECONDS``."""

NOT_ASKED = KnownKubelet(problem="it has not been asked for yet")

Steerable = frozenset[ResourceName]
Compute = tuple[frozenset[int], tuple[MemoryBlock, ...]]


class Pods(Protocol):
    """What steering has of the API server (``daemon.cluster.part``)."""

    @property
    def specs(self) -> Specs:
        """The pods of the node."""
        ...

    @property
    def watching(self) -> bool:
        """Whether they are being watched, short breaks aside."""
        ...


class SteeringFacts:
    """``find`` asks for the kubelet's configuration, ``node_of`` makes the node of it.

    ``follow_health`` is told of which other plugins' resources the devices' health matters.
    """

    def __init__(
        self,
        *,
        find: Callable[[], Awaitable[KnownKubelet]],
        node_of: Callable[[KnownKubelet, Allocatable, Steerable], KubeletModel],
        keeper: NodeState,
        pods: Pods | None,
        clock: Callable[[], float],
        follow_health: Callable[[Collection[ResourceName]], None] = lambda _names: None,
        failed: Callable[[Exception], None] = lambda _exc: None,
    ) -> None:
        self._find = find
        self._node_of = node_of
        self._keeper = keeper
        self._pods = pods
        self._follow_health = follow_health
        self._failed = failed
        self._failures = 0
        self._clock = clock
        self._asked_at: float | None = None
        self._asking_for = 0
        self._node: tuple[KnownKubelet, Compute, Steerable, KubeletModel] | None = None
        self._requests = LearnedRequests()
        self._arrivals = AnnouncedPods(clock)
        self.known = NOT_ASKED

    def forget(self) -> None:
        """Ask again: another kubelet may have started."""
        self._asked_at = None
        self._asking_for += 1
        self.known = NOT_ASKED
        self._arrivals.forget()

    @property
    def ask_at_seconds(self) -> float | None:
        """When the kubelet's configuration has to be asked for; ``None`` when it is known for good."""
        if self._asked_at is None:
            return self._clock()
        if self.known.settings is not None:
            return None
        if self._failures:
            return self._asked_at + min(FIRST_RETRY_SECONDS * 2.0 ** (self._failures - 1), RETRY_SECONDS)
        return self._asked_at + (RETRY_SECONDS if self.known.passing else REFUSED_RETRY_SECONDS)

    async def ask(self) -> None:
        """Ask for the kubelet's configuration, if it is time."""
        due = self.ask_at_seconds
        if due is None or due > self._clock():
            return
        asking_for = self._asking_for
        self._asked_at = self._clock()
        try:
            known, failures = await self._find(), 0
        except Exception as exc:  # noqa: BLE001 - whatever it is, nothing is withheld until it is known
            known, failures = KnownKubelet(problem=f"the look at it failed: {exc!r}"), self._failures + 1
            self._failed(exc)
        if asking_for == self._asking_for:
            self.known, self._failures = known, failures

    @property
    def specs(self) -> Specs:
        """The specs of the node's pods, as far as they are known."""
        if self._pods is None:
            return NO_SPECS
        specs = self._pods.specs
        return Specs(specs.pods, self._keeper.still_ended(specs.terminal))

    def told(self) -> None:
        """Note that the API server has told of a pod."""
        if self._pods is not None:
            self._keeper.ended(self._pods.specs.terminal)
        self._arrivals.told(self.specs)

    def coming(self) -> tuple[Pod, ...]:
        """Return the pods that the kubelet may be about to admit, as far as the API server tells."""
        return self._arrivals.coming(self.specs, self._keeper.observation, moving=self._keeper.moving)

    def node(self, steerable: Steerable) -> KubeletModel:
        """Return the node by what is known now."""
        allocatable = self.allocatable
        last = self._node
        # What is shown of devices changes with each withheld set, and is no part of the node.
        compute = (allocatable.cpus, allocatable.memory)
        if last is None or last[0] is not self.known or last[1] != compute or last[2] != steerable:
            node = self._node_of(self.known, allocatable, steerable)
            if last is None or node != last[3]:
                self._requests = LearnedRequests()
                last = None
            # An equal node stays the same object: what was worked out for it stays good.
            self._node = (self.known, compute, steerable, node if last is None else last[3])
        assert self._node is not None  # noqa: S101 - set above
        return self._node[3]

    def requests(self, node: KubeletModel, settings: SteeringRuntimeSettings) -> RequestsInForce:
        """Return the requests that may arrive.

        Those of pods seen or bound to the node are relied upon only where a mistake mends itself: under
        ``best-effort``, which refuses nothing, and while the API server tells of pods that were refused. Else
        a set has to be right for any request.
        """
        found = self._requests_in_force(node, settings)
        self._follow_health(self._others_that_count(node, found))
        return found

    def idle(self) -> None:
        """Take note that nothing is decided: no facts are needed."""
        self._follow_health(())

    def _others_that_count(self, node: KubeletModel, requests: RequestsInForce) -> Collection[ResourceName]:
        if node.policy in (None, PolicyName.NONE) or not requests.requests:
            return ()
        named = {name for request in requests.requests for name in request.total if not is_compute(name)}
        if not requests.certain:
            named.update(block.resource for block in self.allocatable.devices)
        # What is named and not there yet is another plugin's that registers later.
        return named - node.steerable

    @property
    def allocatable(self) -> Allocatable:
        """What pods can be given, by the last List."""
        seen = self._keeper.observation
        return Allocatable() if seen is None else seen.allocatable

    def _requests_in_force(self, node: KubeletModel, settings: SteeringRuntimeSettings) -> RequestsInForce:
        if settings.declared:
            return RequestsInForce(settings.declared, "declared")
        self._learn(node)
        relied_upon = node.policy == PolicyName.BEST_EFFORT or (
            self._pods is not None and self._pods.watching
        )
        if not relied_upon or not self._requests.requests:
            return RequestsInForce()
        return RequestsInForce(self._requests.requests, "seen")

    def _learn(self, node: KubeletModel) -> None:
        seen, specs = self._keeper.observation, self.specs
        if seen is None or node.cpu is None or node.memory is None:
            return
        moving = self._keeper.moving
        self._requests = self._requests.observed(
            seen.pods,
            settled=frozenset(pod.key for pod in seen.pods if pod.key not in moving),
            specs={key: pod for key, pod in specs.pods.items() if key not in specs.terminal},
            node=node,
        )
