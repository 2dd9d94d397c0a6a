"""What the API server says about the node's pods. Placement works without it.

It is off where the configuration says so, outside a cluster, and without the node's name. Decisions use
PodResources alone then.
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
from numaplace.daemon.runtime.trouble_log import TroubleLog
from numaplace.errors import InputError, PeerError
from numaplace.metrics.metrics import Metrics
from numaplace.model.names import PodKey, ResourceName
from numaplace.placement.reasons import Placement
from numaplace.state.attribution import Specs
from numaplace.state.node_state import NodeState
from numaplace.state.placed_pods import PlacedPodsLog

NODE_NAME_ENV = "NODE_NAME"
_CANNOT_WATCH = "pods cannot be watched; will retry, decisions use PodResources alone"
_WATCH_ADVICE = "allow list and watch of pods, or set cluster.enabled: false"
_CANNOT_SEND = "an Event cannot be sent"
_EVENTS_ADVICE = "allow create of events, or set cluster.events: false"

SHORT_BREAK_SECONDS = 60.0
"""A watch ends every few minutes and is opened again: what happened in between arrives then."""

REPEAT_SECONDS = 600.0
"""The same trouble with the API server is logged again after this time."""


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
        no_watch = TroubleLog(
            log, _CANNOT_WATCH, over="pods are watched again", clock=clock, repeat_seconds=REPEAT_SECONDS
        )
        no_event = TroubleLog(log, _CANNOT_SEND, clock=clock, repeat_seconds=REPEAT_SECONDS)
        self._connected = False
        self._connected_until: float | None = None

        def connected() -> None:
            self._connected = True
            metrics.set_cluster_watch(connected=True)
            no_watch.ended()

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
                failed=_failed(no_watch, _WATCH_ADVICE),
            ),
            chance=random.random,
        )
        self._settled = PlacedPodsLog()
        self._answers = Answers(clock)
        self._sender = (
            EventSender(
                client,
                node_name,
                clocks=SenderClocks(clock, lambda: datetime.now(UTC), random.random),
                counted=metrics.event,
                failed=_failed(no_event, _EVENTS_ADVICE),
            )
            if events
            else None
        )

    @property
    def specs(self) -> Specs:
        return self._store.specs

    @property
    def watching(self) -> bool:
        until = self._connected_until
        return self._connected or (until is not None and self._clock() - until < SHORT_BREAK_SECONDS)

    def notify(
        self,
        *,
        on_change: Callable[[], None],
        on_refused: Callable[[PodKey, Collection[ResourceName]], None],
    ) -> None:
        """Call these when ``specs`` change, and for pods that the kubelet refuses, with what they request."""
        self._on_change, self._on_refused = on_change, on_refused

    async def arrived(self, keys: Collection[PodKey], *, timeout_seconds: float) -> None:
        """Wait a moment for the specs of these pods; not while the server is unreachable."""
        if self._connected:
            await self._store.arrived(keys, timeout_seconds=timeout_seconds)

    @property
    def tasks(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        watch = {"cluster-watch": self._watch.run}
        return watch if self._sender is None else {**watch, "events": self._sender.run}

    def close(self) -> None:
        self._client.close()

    async def configz(self) -> Mapping[str, Any]:
        """Return the kubelet's configuration as it runs; ``PeerError`` if it cannot be had."""
        return await fetch_configz(self._client, self.node_name)

    def decided(self, resource: ResourceName, placement: Placement) -> None:
        if self._sender is not None:
            self._answers.note(resource, placement)

    def listed(
        self,
        state: NodeState,
        *,
        ours: Collection[ResourceName],
        steered: Steered = not_steered,
    ) -> None:
        """Send Events for pods that have been allocated devices of ``ours``."""
        if self._sender is None:
            return
        known = self._store.specs.pods
        self._settled, settled = self._settled.after_list(
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
        write = log.warning if config.enabled is ClusterMode.ON else log.info
        write("the API server is not used", reason=str(error))
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


def _failed(trouble: TroubleLog, advice: str) -> Callable[[PeerError], None]:
    def log(error: PeerError) -> None:
        fields: dict[str, Any] = {"advice": advice} if error.code in NOT_PERMITTED else {}
        trouble.happened(error.code, reason=str(error), **fields)

    return log
