"""The cluster part: what the API server says of the node's pods. Placement goes on without it.

It is off where it is told to be, and where it cannot be on: outside a cluster, or without the node's name.
Then decisions rest on PodResources alone.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from numaplace import __version__
from numaplace.cluster.client import ApiClient
from numaplace.cluster.configz import fetch_configz
from numaplace.cluster.credentials import find_credentials
from numaplace.cluster.pods import PodStore
from numaplace.cluster.sender import EventSender, SenderClocks
from numaplace.cluster.watch import NOT_PERMITTED, PodWatch, WatchObserver
from numaplace.config.schema import ClusterConfig, ClusterMode
from numaplace.daemon.cluster.event_texts import Answers, Steered, not_steered, notes_of
from numaplace.daemon.runtime.logs import EventLog
from numaplace.errors import InputError, PeerError
from numaplace.metrics.metrics import Metrics
from numaplace.model.names import PodKey, ResourceName
from numaplace.placement.reasons import Placement
from numaplace.state.attribution import Specs
from numaplace.state.node_state import NodeState
from numaplace.state.placed_pods import PlacedPodsLog

NODE_NAME_ENV = "NODE_NAME"
_CANNOT_WATCH = "pods cannot be watched; trying on, decisions rest on PodResources"
_WATCH_ADVICE = "allow list and watch of pods, or set cluster.enabled: false"
_CANNOT_TELL = "an Event cannot be sent"
_EVENTS_ADVICE = "allow create of events, or set cluster.events: false"

SHORT_BREAK_SECONDS = 60.0
"""A watch ends every few minutes and is opened again: what happened meanwhile is told then."""

QUIET_SECONDS = 600.0
"""The same trouble with the API server is told again after this time."""


class ClusterPart:
    """What is known from the API server. ``tasks`` are to be run, by name, while the node is served.

    ``node_name`` is the name of the Kubernetes node.
    """

    def __init__(
        self,
        client: ApiClient,
        node_name: str,
        *,
        events: bool,
        metrics: Metrics,
        log: EventLog,
        clock: Callable[[], float],
    ) -> None:
        self.node_name = node_name
        self._client = client
        self._store = PodStore(
            on_change=lambda: self._on_change(),
            on_refused=lambda known: self._on_refused(known.key, frozenset(known.pod.effective_limits)),
        )
        self._on_change: Callable[[], None] = lambda: None
        self._on_refused: Callable[[PodKey, Collection[ResourceName]], None] = lambda _pod, _resources: None
        self._clock = clock
        trouble = _Trouble(log, clock, _CANNOT_WATCH, _WATCH_ADVICE)

        self._connected = False
        self._connected_until: float | None = None

        def connected() -> None:
            self._connected = True
            metrics.set_cluster_watch(connected=True)
            trouble.over()

        def ended() -> None:
            self._connected = False
            self._connected_until = clock()
            metrics.set_cluster_watch(connected=False)

        self._watch = PodWatch(
            client,
            node_name,
            store=self._store,
            observer=WatchObserver(
                called=metrics.cluster_watch_call,
                connected=connected,
                ended=ended,
                failed=trouble.told,
            ),
            chance=random.random,
        )
        self._settled = PlacedPodsLog()
        self._answers = Answers(clock)
        no_event = _Trouble(log, clock, _CANNOT_TELL, _EVENTS_ADVICE)
        self._sender = (
            EventSender(
                client,
                node_name,
                clocks=SenderClocks(clock, lambda: datetime.now(UTC), random.random),
                counted=metrics.event,
                failed=no_event.told,
            )
            if events
            else None
        )

    @property
    def specs(self) -> Specs:
        """The pods of this node, as the API server last told them."""
        return self._store.specs

    @property
    def watching(self) -> bool:
        """Whether the pods are being watched, short breaks aside."""
        until = self._connected_until
        return self._connected or (until is not None and self._clock() - until < SHORT_BREAK_SECONDS)

    def tell(
        self,
        *,
        on_change: Callable[[], None],
        on_refused: Callable[[PodKey, Collection[ResourceName]], None],
    ) -> None:
        """Tell of changes of ``specs``, and of pods that the kubelet refuses, with what they ask for."""
        self._on_change, self._on_refused = on_change, on_refused

    async def arrived(self, keys: Collection[PodKey], *, timeout_seconds: float) -> None:
        """Give the specs of these pods a moment to come; none while the server is away."""
        if self._connected:
            await self._store.arrived(keys, timeout_seconds=timeout_seconds)

    @property
    def tasks(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """What has to run."""
        watch = {"cluster-watch": self._watch.run}
        return watch if self._sender is None else {**watch, "events": self._sender.run}

    def close(self) -> None:
        """Close the connections that are kept for the next request."""
        self._client.close()

    async def configz(self) -> Mapping[str, Any]:
        """Return the kubelet's configuration as it runs; ``PeerError`` if the server does not tell it."""
        return await fetch_configz(self._client, self.node_name)

    def decided(self, resource: ResourceName, placement: Placement) -> None:
        """Note an answer of ours, so that an Event can say why."""
        if self._sender is not None:
            self._answers.note(resource, placement)

    def listed(
        self,
        state: NodeState,
        *,
        ours: Collection[ResourceName],
        steered: Steered = not_steered,
    ) -> None:
        """Note a List of PodResources: pods that have been given devices of ``ours`` get Events."""
        if self._sender is None:
            return
        known = self._store.specs.pods
        self._settled, settled = self._settled.observed(
            state.listed, complete=state.complete, known=known, now_seconds=self._clock()
        )
        snapshot = state.snapshot() if settled else None
        if snapshot is None:
            return
        for pod in settled:
            spec, answers = known[pod.key], self._answers
            notes = notes_of(pod, spec, ours=ours, snapshot=snapshot, answers=answers, steered=steered)
            for note in notes:
                self._sender.put(note)


def cluster_part(
    config: ClusterConfig,
    *,
    env: Mapping[str, str],
    metrics: Metrics,
    log: EventLog,
    clock: Callable[[], float],
) -> ClusterPart | None:
    """Return the cluster part, or ``None`` if it is off; the log says why."""
    metrics.set_cluster_watch(connected=None)
    if config.enabled is ClusterMode.OFF:
        return None
    try:
        credentials, node_name = find_credentials(env), _node_name(env)
    except InputError as error:
        told = log.warning if config.enabled is ClusterMode.ON else log.info
        told("the API server is not used", reason=str(error))
        return None
    metrics.set_cluster_watch(connected=False)
    client = ApiClient(credentials, user_agent=f"numaplace/{__version__}")
    server = credentials.server
    log.info("the API server is used", server=f"{server.host}:{server.port}", node=node_name)
    return ClusterPart(client, node_name, events=config.events, metrics=metrics, log=log, clock=clock)


def _node_name(env: Mapping[str, str]) -> str:
    if not env.get(NODE_NAME_ENV):
        raise InputError(f"{NODE_NAME_ENV} is not set: it has to name the Kubernetes node")
    return env[NODE_NAME_ENV]


class _Trouble:
    """Tells of the same trouble now and then, and of its end."""

    def __init__(self, log: EventLog, clock: Callable[[], float], event: str, advice: str) -> None:
        self._log = log
        self._clock = clock
        self._event = event
        self._advice = advice
        self._code: str | None = None
        self._told_at = 0.0

    def told(self, error: PeerError) -> None:
        now = self._clock()
        if error.code == self._code and now - self._told_at < QUIET_SECONDS:
            return
        self._code, self._told_at = error.code, now
        advice = {"advice": self._advice} if error.code in NOT_PERMITTED else {}
        self._log.warning(self._event, reason=str(error), **advice)

    def over(self) -> None:
        if self._code is not None:
            self._code = None
            self._log.info("pods are watched again")
