"""The daemon's parts for one kubelet: state, decisions, one service and one registration per resource."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext

import msgspec

from numaplace.config.schema import Config, ResourceConfig
from numaplace.daemon.decide import Decider, DecisionSettings
from numaplace.daemon.http import Pages, serve_http
from numaplace.daemon.keeper import Keeper
from numaplace.daemon.logs import EventLog
from numaplace.daemon.resource import RunningResource
from numaplace.daemon.service import ResourceService
from numaplace.daemon.sources import source_of
from numaplace.daemon.supervise import supervise
from numaplace.devices.host import read_topology
from numaplace.devices.scan import Source
from numaplace.engine.options import PolicyOptions
from numaplace.kubelet.podresources import connect
from numaplace.kubelet.poller import Observation, Poller, PollerTimes
from numaplace.kubelet.sockets import SocketIdentity
from numaplace.kubelet.watch import SocketWatch
from numaplace.metrics.metrics import Metrics
from numaplace.model.names import ResourceName


class Node:
    """Everything that belongs to one configuration of sockets and host roots.

    ``InputError`` from the constructor and from ``apply`` leaves nothing half-done.
    """

    def __init__(
        self, config: Config, *, metrics: Metrics, log: EventLog, clock: Callable[[], float]
    ) -> None:
        self._config = config
        self._metrics = metrics
        self._log = log
        self._clock = clock
        self._sources = _new_sources(config, {})
        self._settings = _settings(config)
        self._resources: dict[ResourceName, RunningResource] = {}
        self._keeper = Keeper(read_topology(config.host.sysfs), clock=clock)
        self._kubelet: SocketIdentity | None = None
        self._watch = SocketWatch(config.kubelet.device_plugin_directory, on_degraded=self._inotify_degraded)
        self._pod_resources = connect(
            f"unix:{config.kubelet.pod_resources_socket}", observe=metrics.podresources_call
        )
        self._poller = Poller(
            self._pod_resources,
            clock=clock,
            on_observation=self._observed,
            times=PollerTimes(interval_seconds=config.poll_interval_seconds),
        )
        self._decider = Decider(
            keeper=self._keeper, poller=self._poller, metrics=metrics, log=log, clock=clock
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve while the context is open."""
        self._metrics.set_inotify(available=True)
        self._tell_topology()
        tasks: list[asyncio.Task[None]] = []
        with self._http():
            try:
                for name, run in (("socket-watch", self._watch.run), ("poller", self._poller.run)):
                    tasks.append(asyncio.create_task(self._supervised(name, run), name=name))
                await self._start(self._config, self._sources)
                yield
            finally:
                await self._stop(tuple(self._resources))
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await self._pod_resources.close()

    async def apply(self, config: Config) -> bool:
        """Change to a configuration in place; return False, with nothing done, if that takes a new start."""
        if _fixed_parts(config) != _fixed_parts(self._config):
            _new_sources(config, {})
            return False
        before = {resource.name: _without_strategy(resource) for resource in self._config.resources}
        sources = _new_sources(config, before)
        wanted = {resource.name for resource in config.resources}
        gone = [name for name in self._resources if name not in wanted]
        await self._stop((*gone, *(name for name in sources if name in self._resources)))
        for name in gone:
            self._keeper.set_devices(name, None)
            self._metrics.forget(name)
        await self._start(config, sources)
        return True

    async def _start(self, config: Config, sources: dict[ResourceName, Source]) -> None:
        self._config = config
        self._settings = _settings(config)
        for name, source in sources.items():
            service = ResourceService(
                name,
                source,
                keeper=self._keeper,
                decider=self._decider,
                settings=lambda name=name: self._settings[name],  # type: ignore[misc]
                metrics=self._metrics,
                log=self._log,
                clock=self._clock,
            )
            running = RunningResource(
                service,
                self._watch,
                interval_seconds=lambda: self._config.rescan_interval_seconds,
                on_accepted=self._accepted,
                metrics=self._metrics,
                log=self._log,
            )
            self._resources[name] = running
            running.start()

    async def _stop(self, names: tuple[ResourceName, ...]) -> None:
        await asyncio.gather(*(self._resources.pop(name).stop() for name in names))

    async def _supervised(self, name: str, run: Callable[[], object]) -> None:
        await supervise(name, run, log=self._log, restarted=self._metrics.restarted)  # type: ignore[arg-type]

    def _observed(self, observation: Observation) -> None:
        self._keeper.observed(observation)

    def _accepted(self) -> None:
        """Take note of an accepted registration: capacity changed, and the kubelet may be a new process."""
        kubelet = self._watch.kubelet()
        if kubelet != self._kubelet:
            self._kubelet = kubelet
            self._keeper.kubelet_restarted()
        self._poller.refresh_allocatable()

    def _inotify_degraded(self, reason: str) -> None:
        self._metrics.set_inotify(available=False)
        self._log.warning("sockets are watched by polling only", reason=reason)

    def _tell_topology(self) -> None:
        topology = self._keeper.topology
        self._log.info("topology", numa_nodes=topology.nodes)
        if len(topology.nodes) > self._config.max_allowable_numa_nodes:
            self._log.warning(
                "more NUMA nodes than maxAllowableNUMANodes: a kubelet with a Topology Manager policy would "
                "refuse to start",
                numa_nodes=len(topology.nodes),
                allowed=self._config.max_allowable_numa_nodes,
            )

    @contextmanager
    def _http(self) -> Iterator[None]:
        listen = self._config.http.listen
        with (
            serve_http(listen, Pages(self._refresh_metrics, self._metrics.render, self._ready))
            if listen
            else nullcontext()
        ):
            yield

    def _refresh_metrics(self) -> None:
        """Set the gauges that are only worth setting when somebody looks."""
        snapshot = self._keeper.snapshot()
        if snapshot is not None:
            self._metrics.set_snapshot(snapshot)
        for name, running in self._resources.items():
            self._metrics.set_registered(name, registered=running.registered)

    def _ready(self) -> tuple[bool, str]:
        """Ready: every resource is registered. A missing List does not count: pods are placed without it."""
        missing = [name for name, running in self._resources.items() if not running.registered]
        state = "" if self._poller.latest else "; PodResources has not answered yet"
        if missing:
            return False, f"not registered with the kubelet: {', '.join(missing)}{state}"
        return True, f"ready{state}"


def _fixed_parts(config: Config) -> tuple[object, ...]:
    """Return what cannot be changed while serving."""
    return (config.kubelet, config.host, config.http, config.poll_interval_seconds)


def _without_strategy(resource: ResourceConfig) -> ResourceConfig:
    return msgspec.structs.replace(resource, strategy=None)


def _new_sources(config: Config, before: dict[ResourceName, ResourceConfig]) -> dict[ResourceName, Source]:
    """Return the sources of the resources that are new or look elsewhere than before."""
    return {
        resource.name: source_of(resource, config.host)
        for resource in config.resources
        if before.get(resource.name) != _without_strategy(resource)
    }


def _settings(config: Config) -> dict[ResourceName, DecisionSettings]:
    return {
        resource.name: DecisionSettings(
            options=PolicyOptions(
                prefer_closest=config.prefer_closest,
                max_allowable_numa_nodes=config.max_allowable_numa_nodes,
                strategy=config.strategy if resource.strategy is None else resource.strategy,
                weights=config.weights,
            ),
            deadline_seconds=config.deadline_seconds,
            live_list=config.kubelet.live_list,
        )
        for resource in config.resources
    }
