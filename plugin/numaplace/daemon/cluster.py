"""The cluster part: what the API server says of the node's pods. Placement goes on without it.

It is off where it is told to be, and where it cannot be on: outside a cluster, or without the node's name.
Then decisions rest on PodResources alone.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping

from numaplace import __version__
from numaplace.cluster.client import ApiClient
from numaplace.cluster.credentials import find_credentials
from numaplace.cluster.pods import PodStore
from numaplace.cluster.watch import NOT_PERMITTED, PodWatch, WatchObserver
from numaplace.config.schema import ClusterConfig, ClusterMode
from numaplace.daemon.logs import EventLog
from numaplace.errors import InputError, PeerError
from numaplace.metrics.metrics import Metrics
from numaplace.state.attribution import Specs

NODE_NAME_ENV = "NODE_NAME"
QUIET_SECONDS = 600.0
"""The same trouble with the API server is told again after this time."""


class ClusterPart:
    """What is known from the API server. ``tasks`` are to be run, by name, while the node is served."""

    def __init__(
        self,
        client: ApiClient,
        node_name: str,
        *,
        metrics: Metrics,
        log: EventLog,
        clock: Callable[[], float],
    ) -> None:
        self._store = PodStore()
        trouble = _Trouble(log, clock)

        def connected() -> None:
            metrics.set_cluster_watch(connected=True)
            trouble.over()

        self._watch = PodWatch(
            client,
            node_name,
            store=self._store,
            observer=WatchObserver(
                called=metrics.cluster_watch_call,
                connected=connected,
                ended=lambda: metrics.set_cluster_watch(connected=False),
                failed=trouble.told,
            ),
            chance=random.random,
        )

    @property
    def specs(self) -> Specs:
        """The pods of this node, as the API server last told them."""
        return self._store.specs

    @property
    def tasks(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """What has to run."""
        return {"cluster-watch": self._watch.run}


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
    return ClusterPart(client, node_name, metrics=metrics, log=log, clock=clock)


def _node_name(env: Mapping[str, str]) -> str:
    if not env.get(NODE_NAME_ENV):
        raise InputError(f"{NODE_NAME_ENV} is not set: it has to name the Kubernetes node")
    return env[NODE_NAME_ENV]


class _Trouble:
    """Tells of the same trouble now and then, and of its end."""

    def __init__(self, log: EventLog, clock: Callable[[], float]) -> None:
        self._log = log
        self._clock = clock
        self._code: str | None = None
        self._told_at = 0.0

    def told(self, error: PeerError) -> None:
        now = self._clock()
        if error.code == self._code and now - self._told_at < QUIET_SECONDS:
            return
        self._code, self._told_at = error.code, now
        advice = {"advice": "allow list and watch of pods, or set cluster.enabled: false"}
        self._log.warning(
            "pods cannot be watched; trying on, decisions rest on PodResources",
            reason=str(error),
            **(advice if error.code in NOT_PERMITTED else {}),
        )

    def over(self) -> None:
        if self._code is not None:
            self._code = None
            self._log.info("pods are watched again")
