"""The daemon's parts for one kubelet, put together: state, decisions, resources, steering, pages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager

from numaplace.config.schema import Config, SteeringMode
from numaplace.daemon.cluster.part import ClusterPart, cluster_part
from numaplace.daemon.node_state import NodeStateHolder
from numaplace.daemon.pages import NodePages
from numaplace.daemon.preference.decider import Decider
from numaplace.daemon.reload_plan import fixed_parts, new_sources, resource_settings_of
from numaplace.daemon.resources.context import ResourceContext
from numaplace.daemon.resources.in_service import ResourcesInService
from numaplace.daemon.resources.published import PublishedTopology
from numaplace.daemon.runtime.logs import EventLog
from numaplace.daemon.runtime.supervise import supervise
from numaplace.daemon.runtime.trouble_log import TroubleLog
from numaplace.daemon.steering.build import make_steering
from numaplace.daemon.steering.context import SteeringContext
from numaplace.daemon.steering.controller import SteeringController
from numaplace.daemon.steering.page import SteeringView, steering_view
from numaplace.daemon.steering.report import SteeringReport
from numaplace.daemon.steering.settings import Settings
from numaplace.daemon.steering.status import SteeringStatus
from numaplace.daemon.steering.suspension import BreakerBox
from numaplace.daemon.steering.times import Times
from numaplace.devices.host import read_topology
from numaplace.kubelet.directories import DirectoryWatch
from numaplace.kubelet.plugin.watch import SocketWatch
from numaplace.kubelet.podresources.client import connect
from numaplace.kubelet.podresources.poller import Poller, PollerTimes
from numaplace.kubelet.sockets import SocketIdentity
from numaplace.metrics.metrics import Metrics
from numaplace.model.names import DeviceId, ResourceName
from numaplace.model.observation import Observation
from numaplace.state.node_state import NodeState
from numaplace.steering.text import steered_text

OUTAGE = "PodResources List fails; decisions use the last known state"
OUTAGE_QUIET_SECONDS = 60.0
"""A List that fails now and then (the kubelet's rate limit) gets one line in this time."""


class Node:
    """Everything that belongs to one configuration of sockets and host roots.

    ``InputError`` from the constructor, from ``running`` and from ``apply`` leaves nothing half-done.
    ``env`` names the API server and this node; without it, the server is not used. ``box`` holds steering's
    circuit breaker, which outlives a node, ``times`` how long it waits. ``port`` is that of the HTTP pages
    while they are served.
    """

    def __init__(
        self,
        config: Config,
        *,
        metrics: Metrics,
        log: EventLog,
        clock: Callable[[], float],
        env: Mapping[str, str] | None = None,
        box: BreakerBox | None = None,
        times: Times | None = None,
    ) -> None:
        self._config = config
        self._metrics = metrics
        self._log = log
        self._clock = clock
        self._settings = resource_settings_of(config)
        self._node_state = NodeStateHolder(read_topology(config.host.sysfs), clock=clock)
        self._kubelet: SocketIdentity | None = None
        self._outage = TroubleLog(
            log, OUTAGE, over="PodResources answers again", clock=clock, quiet_seconds=OUTAGE_QUIET_SECONDS
        )
        self._directories = DirectoryWatch(
            on_degraded=self._inotify_degraded, on_restored=self._inotify_restored
        )
        self._watch = SocketWatch(config.kubelet.device_plugin_directory, self._directories)
        self._pod_resources = connect(
            f"unix:{config.kubelet.pod_resources_socket}", observe=self._pod_resources_called
        )
        self._poller = Poller(
            self._pod_resources,
            clock=clock,
            on_observation=self._observed,
            times=PollerTimes(interval_seconds=config.poll_interval_seconds),
        )
        self._cluster = cluster_part(config.cluster, env=env or {}, metrics=metrics, log=log, clock=clock)
        self._decider = Decider(
            node_state=self._node_state,
            poller=self._poller,
            metrics=metrics,
            log=log,
            clock=clock,
            kubelet=lambda: self._steerer.kubelet_model,
            cluster=self._cluster,
        )
        self._steerer = make_steering(
            config,
            SteeringContext(
                self._services,
                self._node_state,
                self._poller,
                self._cluster,
                SteeringReport(log, metrics.steering),
                clock,
                times or Times(),
            ),
            cluster=self._cluster,
            breaker=box or BreakerBox(),
        )
        self.resources = ResourcesInService(
            ResourceContext(
                self._node_state, self._decider, self._steerer, self._directories, metrics, log, clock
            ),
            self._watch,
            on_accepted=self._accepted,
        )
        self._pages = NodePages(
            self._node_state, self._poller, self.resources, self._steering_view, metrics, log
        )
        self._first = self.resources.prepare(new_sources(config), self._settings)
        self.port: int | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        with self._pages.served(self._config.http.listen) as self.port:
            self._metrics.set_inotify(available=True)
            self._tell_topology()
            tasks = [
                self._supervised("directory-watch", self._directories.run),
                self._supervised("socket-watch", self._watch.run),
                self._supervised("poller", self._poller.run),
                self._supervised("steering", self._steerer.run),
                *(self._supervised(task, run) for task, run in self._cluster_tasks.items()),
            ]
            await self.resources.change(self._first, self._settings)
            self._pages.serving = True
            try:
                yield
            finally:
                self._pages.serving = False
                await self.resources.stop()
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await self._pod_resources.close()
                if self._cluster is not None:
                    self._cluster.close()

    @property
    def poller(self) -> Poller:
        return self._poller

    @property
    def steering(self) -> SteeringController:
        return self._steerer

    @property
    def cluster(self) -> ClusterPart | None:
        """``None`` where the API server is not used."""
        return self._cluster

    async def apply(self, config: Config) -> bool:
        """Change to a configuration in place; return False, with nothing done, if that takes a new start."""
        if fixed_parts(config) != fixed_parts(self._config):
            new_sources(config)
            return False
        sources = new_sources(config, before=self._config)
        settings = resource_settings_of(config)
        prepared = self.resources.prepare(sources, settings)
        gone = await self.resources.change(prepared, settings)
        self._config, self._settings = config, settings
        self._steerer.reload(Settings.of(config))
        if gone:
            self._poller.refresh_allocatable()
        return True

    def _services(self) -> Mapping[ResourceName, PublishedTopology]:
        return self.resources.topologies

    def steering_status(self) -> SteeringStatus | None:
        return None if self._config.steering.mode is SteeringMode.OFF else self._steerer.status

    def _supervised(self, task: str, run: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        return asyncio.create_task(
            supervise(task, run, log=self._log, restarted=self._metrics.restarted), name=task
        )

    def _observed(self, observation: Observation) -> None:
        self._node_state.observed(observation)
        # A decision may be waiting for this List: steering and Events come after it.
        loop = asyncio.get_running_loop()
        loop.call_soon(self._steerer.wake)
        if self._cluster is not None:
            loop.call_soon(self._listed, self._cluster, self._node_state.now)

    def _listed(self, cluster: ClusterPart, state: NodeState) -> None:
        cluster.listed(state, ours=self.resources.names, steered=self._steered)

    def _steered(self, resource: ResourceName, ids: Collection[DeviceId], mask: int) -> str:
        stock = self._steerer.without_steering(resource, ids)
        if stock is None or resource not in self._settings:
            return ""
        return steered_text(
            mask, instead_of=stock, strategy=self._settings[resource].decision.options.strategy
        )

    @property
    def _cluster_tasks(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        return self._cluster.tasks if self._cluster else {}

    def _accepted(self) -> None:
        # The capacity has changed, and the kubelet may be a new process.
        kubelet = self._watch.kubelet()
        if kubelet != self._kubelet:
            self._kubelet = kubelet
            self._node_state.kubelet_restarted()
            self._steerer.kubelet_lost()
        self._steerer.kubelet_returned()
        self._poller.refresh_allocatable()

    def _pod_resources_called(self, method: str, code: str) -> None:
        self._metrics.podresources_call(method, code)
        if method == "List":
            if code == "OK":
                self._outage.ended()
            else:
                self._outage.happened(code=code)

    def _inotify_degraded(self, reason: str) -> None:
        self._metrics.set_inotify(available=False)
        self._log.warning("inotify is not available; sockets and device folders are polled", reason=reason)

    def _inotify_restored(self) -> None:
        self._metrics.set_inotify(available=True)
        self._log.info("inotify is available again")

    def _steering_view(self) -> SteeringView:
        return steering_view(self._config.steering.mode, self.steering_status(), self._services())

    def _tell_topology(self) -> None:
        topology = self._node_state.now.topology
        self._log.info("topology", numa_nodes=topology.nodes)
        if len(topology.nodes) > self._config.max_allowable_numa_nodes:
            self._log.warning(
                "more NUMA nodes than maxAllowableNUMANodes: a kubelet with a Topology Manager policy would "
                "refuse to start",
                numa_nodes=len(topology.nodes),
                allowed=self._config.max_allowable_numa_nodes,
            )
