"""Puts steering together for one node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from numaplace.config.schema import Config
from numaplace.daemon.cluster.part import ClusterPart
from numaplace.daemon.node_state import NodeState
from numaplace.daemon.runtime.logs import EventLog
from numaplace.daemon.steering.confirmation import Confirmation
from numaplace.daemon.steering.controller import SteeringController
from numaplace.daemon.steering.kubelet_probe import KnownKubelet, find_kubelet, steering_node
from numaplace.daemon.steering.kubelet_restart import KubeletRestart
from numaplace.daemon.steering.log import SteeringLog
from numaplace.daemon.steering.on_allocate import GrantFollower
from numaplace.daemon.steering.publisher import PublishedResource, Publisher
from numaplace.daemon.steering.quiescence import Quiescence
from numaplace.daemon.steering.requests import Steerable, SteeringFacts
from numaplace.daemon.steering.settings import SteeringRuntimeSettings
from numaplace.daemon.steering.suspension import BreakerBox, Suspension
from numaplace.devices.cpu_topology import read_cpu_topology
from numaplace.kubelet.checkpoint import Checkpoint
from numaplace.kubelet.podresources.poller import Poller
from numaplace.managers.cpu.topology import CpuTopology
from numaplace.metrics.labels import SteeringFailure
from numaplace.metrics.metrics import Metrics
from numaplace.metrics.steering import SteeringMetrics
from numaplace.model.names import ResourceName
from numaplace.model.podresources import Allocatable
from numaplace.prediction.model import KubeletModel

LEAST_STALE_SECONDS = 30.0
STALE_POLLS = 3
"""As many Lists in a row may fail before nothing is withheld any more."""


class KubeletOfNode:
    """What is known of the node's kubelet, and the CPUs that it sees."""

    def __init__(self, config: Config, cluster: ClusterPart | None, keeper: NodeState) -> None:
        self._config = config
        self._cluster = cluster
        self._keeper = keeper
        self._cpus: CpuTopology | None = None

    async def find(self) -> KnownKubelet:
        """Look at the configuration and the CPUs; a kubelet does so when it starts."""
        host = self._config.host
        self._cpus = await asyncio.to_thread(read_cpu_topology, host.sysfs, procfs=host.procfs)
        return await find_kubelet(self._config, self._cluster)

    def node(self, known: KnownKubelet, allocatable: Allocatable, steerable: Steerable) -> KubeletModel:
        """Return the node for steering."""
        return steering_node(
            known,
            allocatable=allocatable,
            topology=self._keeper.topology,
            cpu_topology=self._cpus,
            steerable=steerable,
        )


def steerer_of(
    resources: Callable[[], Mapping[ResourceName, PublishedResource]],
    *,
    settings: Callable[[], SteeringRuntimeSettings],
    facts: SteeringFacts,
    keeper: NodeState,
    poller: Poller,
    hold: KubeletRestart,
    metrics: SteeringMetrics,
    log: SteeringLog,
    clock: Callable[[], float],
    box: BreakerBox,
    stale_seconds: float,
) -> SteeringController:
    """Return a steerer with all its parts. A List older than ``stale_seconds`` is not gone by."""
    pace = Quiescence(
        keeper, poller, open_until=lambda: keeper.open_until(resources(), specs=facts.specs), clock=clock
    )
    standstill = Suspension(
        resources,
        facts=facts,
        keeper=keeper,
        pace=pace,
        hold=hold,
        box=box,
        clock=clock,
        stale_seconds=stale_seconds,
    )
    exposure = Publisher(
        resources,
        in_use=standstill.in_use,
        sent=metrics.sent,
        confirmation=Confirmation(
            lambda seconds: poller.live_allocatable(timeout_seconds=seconds), clock=clock
        ),
        clock=clock,
    )
    follower = GrantFollower(
        keeper=keeper,
        poller=poller,
        facts=facts,
        exposure=exposure,
        metrics=metrics,
        log=log,
        clock=clock,
    )
    return SteeringController(
        resources,
        settings=settings,
        facts=facts,
        keeper=keeper,
        pace=pace,
        standstill=standstill,
        exposure=exposure,
        follower=follower,
        metrics=metrics,
        log=log,
        clock=clock,
    )


def make_steerer(
    config: Config,
    *,
    resources: Callable[[], Mapping[ResourceName, PublishedResource]],
    settings: Callable[[], SteeringRuntimeSettings],
    keeper: NodeState,
    poller: Poller,
    cluster: ClusterPart | None,
    metrics: Metrics,
    log: EventLog,
    clock: Callable[[], float],
    box: BreakerBox,
) -> SteeringController:
    """Return the steerer of a node; ``config`` is the one with the node's sockets and host roots."""
    kubelet = KubeletOfNode(config, cluster, keeper)
    checkpoint = Checkpoint(config.kubelet.device_plugin_directory)
    told = SteeringLog(log)

    def failed(exc: Exception) -> None:
        metrics.steering.failed(SteeringFailure.ERROR)
        told.kubelet_not_found(exc)

    steerer = steerer_of(
        resources,
        settings=settings,
        facts=SteeringFacts(
            find=kubelet.find,
            node_of=kubelet.node,
            keeper=keeper,
            pods=cluster,
            follow_health=lambda names: poller.follow_allocatable(on=bool(names)),
            failed=failed,
            clock=clock,
        ),
        keeper=keeper,
        poller=poller,
        hold=KubeletRestart(checkpoint.devices, clock=clock),
        metrics=metrics.steering,
        log=told,
        clock=clock,
        box=box,
        stale_seconds=max(LEAST_STALE_SECONDS, STALE_POLLS * config.poll_interval_seconds),
    )
    if cluster is not None:
        cluster.tell(on_change=steerer.pods_changed, on_refused=steerer.pod_refused)
    return steerer
