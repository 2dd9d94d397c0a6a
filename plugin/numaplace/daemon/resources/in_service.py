"""The resources of a node that are being served, and how a reload changes them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from numaplace.daemon.resources.context import ResourceContext, ResourceSettings
from numaplace.daemon.resources.host_supply import HostSupply
from numaplace.daemon.resources.published import PublishedTopology
from numaplace.daemon.resources.running import RunningResource
from numaplace.daemon.resources.service import ResourceService
from numaplace.devices.scan import Source
from numaplace.kubelet.plugin.watch import SocketWatch
from numaplace.model.names import ResourceName

Settings = Mapping[ResourceName, ResourceSettings]
Prepared = Mapping[ResourceName, RunningResource]


class ResourcesInService:
    """``on_accepted`` is called after each registration that the kubelet has accepted."""

    def __init__(
        self, context: ResourceContext, watch: SocketWatch, *, on_accepted: Callable[[], None]
    ) -> None:
        self._context = context
        self._watch = watch
        self._on_accepted = on_accepted
        self._running: dict[ResourceName, RunningResource] = {}

    def __getitem__(self, name: ResourceName) -> RunningResource:
        return self._running[name]

    @property
    def names(self) -> frozenset[ResourceName]:
        return frozenset(self._running)

    @property
    def registered(self) -> Mapping[ResourceName, bool]:
        return {name: one.registered for name, one in self._running.items()}

    @property
    def topologies(self) -> Mapping[ResourceName, PublishedTopology]:
        return {name: one.service.topology for name, one in self._running.items()}

    def prepare(self, sources: Mapping[ResourceName, Source], settings: Settings) -> Prepared:
        """Return resources that are ready to start; nothing happens before that.

        ``InputError`` when the kubelet's directory leaves no room for a socket name.
        """
        kept = [one for name, one in self._running.items() if name in settings and name not in sources]
        made: dict[ResourceName, RunningResource] = {}
        for name, source in sources.items():
            supply = HostSupply(name, source, self._context, settings[name])
            made[name] = RunningResource(
                ResourceService(name, supply, self._context, settings[name]),
                supply,
                self._watch,
                after=(*kept, *made.values()),
                on_accepted=self._on_accepted,
                metrics=self._context.metrics,
                log=self._context.log,
            )
        return made

    async def change(self, prepared: Prepared, settings: Settings) -> bool:
        """Start what is prepared, in place of what has the same name; stop what no longer has settings.

        Return whether resources have gone.
        """
        gone = [name for name in self._running if name not in settings]
        replaced = [name for name in prepared if name in self._running]
        await self._stop([*gone, *replaced])
        for name in replaced:
            if name != next(iter(prepared)):
                # Those before it scan first: a device that it has offered until now may be theirs.
                self._context.node_state.set_devices(name, ())
        for name in gone:
            self._context.node_state.set_devices(name, None)
            self._context.metrics.forget(name)
        for name, kept in self._running.items():
            kept.service.reload(settings[name])
        for name, one in prepared.items():
            self._running[name] = one
            one.start()
        return bool(gone)

    async def stop(self) -> None:
        await self._stop(list(self._running))

    async def _stop(self, names: list[ResourceName]) -> None:
        await asyncio.gather(*(self._running.pop(name).stop() for name in names))
