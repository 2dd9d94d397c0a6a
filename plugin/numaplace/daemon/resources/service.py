"""One resource: its source, its inventory, what ListAndWatch publishes, and its answers to the kubelet."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from numaplace.daemon.node_state import NodeState
from numaplace.daemon.preference.decider import Decider, DecisionSettings, PreferredRequest
from numaplace.daemon.resources.change_watch import ChangeWatch
from numaplace.daemon.runtime.logs import EventLog
from numaplace.daemon.steering.confirmation import is_shown
from numaplace.devices.inventory import Inventory, InventoryChange
from numaplace.devices.scan import LeftOut, Scan, Source
from numaplace.errors import PeerError
from numaplace.kubelet.directories import DirectoryWatch
from numaplace.kubelet.plugin.devicelist import DeviceList, DeviceListBroadcaster, StreamCursor
from numaplace.metrics.metrics import Metrics
from numaplace.model.device import ContainerEdits, Device, combine
from numaplace.model.names import DeviceId, ResourceName, Strategy
from numaplace.model.podresources import Allocatable
from numaplace.placement.index import index_devices
from numaplace.steering.hidden_devices import LOOK_SECONDS, HiddenDevices
from numaplace.steering.published_topology import published_nodes

SETTLE_SECONDS = 2.0
"""Time to the next look when a device has changed and the change is not believed yet."""


def _shown(device: Device, nodes: tuple[int, ...]) -> Device:
    return device if nodes == device.nodes else replace(device, nodes=nodes)


class Steering(Protocol):
    """What a service tells steering (``daemon.steering.controller``)."""

    def active(self) -> None:
        """Note that a container is under admission."""
        ...

    async def granted(
        self, resource: ResourceName, ids: Collection[DeviceId], *, since_seconds: float
    ) -> None:
        """Have the next list delivered before Allocate is answered; raises nothing."""
        ...

    def lost_alignment(self, resource: ResourceName) -> bool:
        """Take note that hidden devices are offered beside shown ones; return whether that is our doing."""
        ...

    def reset(self) -> None:
        """Expose everything: devices have changed."""
        ...

    def kubelet_lost(self) -> None:
        """Expose everything: the kubelet does not follow any more."""
        ...


class ResourceService:
    """Implements ``kubelet.plugin.service.PluginHandler`` for one resource.

    The devices and their NUMA nodes are known to all of the daemon as they are; only what is published is
    shaped (``publish``).
    """

    def __init__(
        self,
        resource: ResourceName,
        source: Source,
        *,
        keeper: NodeState,
        decider: Decider,
        steering: Steering,
        settings: Callable[[], DecisionSettings],
        metrics: Metrics,
        log: EventLog,
        clock: Callable[[], float],
    ) -> None:
        self._resource = resource
        self._source = source
        self._keeper = keeper
        self._decider = decider
        self._steering = steering
        self._settings = settings
        self._metrics = metrics
        self._log = log
        self._clock = clock
        self._inventory = Inventory()
        self._board = DeviceListBroadcaster()
        self._real: tuple[Device, ...] = ()
        self._hidden = HiddenDevices()
        self._answered: tuple[frozenset[DeviceId], float] = (frozenset(), 0.0)
        self._index = index_devices(())
        self._told: frozenset[LeftOut | str] = frozenset()
        self._looked = False

    @property
    def resource(self) -> ResourceName:
        """The extended resource that is served."""
        return self._resource

    @property
    def strategy(self) -> Strategy:
        """The strategy in force."""
        return self._settings().options.strategy

    def devices(self) -> DeviceList:
        """Return what ListAndWatch publishes now."""
        return self._board.current

    async def wait_change(self, version: int) -> DeviceList:
        """Return the list once its version is another one."""
        return await self._board.wait_change(version)

    @contextmanager
    def following(self) -> Iterator[StreamCursor]:
        """Count a ListAndWatch stream as open; without one, the kubelet may be another one next time."""
        try:
            with self._board.following() as follower:
                yield follower
        finally:
            if not self._board.followed:
                # What comes next follows no question of before.
                self._answered = (frozenset(), 0.0)
                self._steering.kubelet_lost()

    def written(self, follower: StreamCursor, version: int) -> None:
        """Take note that a stream has written this version."""
        self._board.written(follower, version)

    async def preferred(
        self, available: Sequence[DeviceId], must_include: Sequence[DeviceId], size: int
    ) -> Sequence[DeviceId]:
        """Answer GetPreferredAllocation."""
        self._steering.active()
        asked_at_seconds = self._clock()
        hidden = self._hidden
        lost = hidden.mixes(available, must_include) and self._steering.lost_alignment(self._resource)
        if lost or hidden.changed_since(asked_at_seconds - LOOK_SECONDS):
            available = tuple(hidden.looked_at(available, must_include, size))
        answer = await self._decider.decide(
            PreferredRequest(self._resource, available, must_include, size, self._index, self._settings())
        )
        self._answered = (frozenset(answer), asked_at_seconds)
        return answer

    async def allocate(self, ids: Sequence[DeviceId]) -> ContainerEdits:
        """Answer Allocate, for every device that was ever published; note the grant.

        Before the answer leaves, the list for the next admission has.
        """
        called_at_seconds = self._clock()
        devices = [self._board.find(device_id) for device_id in ids]
        missing = [device_id for device_id, device in zip(ids, devices, strict=True) if device is None]
        if missing:
            raise PeerError(f"unknown device ids: {', '.join(missing)}", code="NOT_FOUND")
        edits = combine(device.edits for device in devices if device is not None)
        self._keeper.granted(self._resource, ids)
        followed, asked_at_seconds = self._answered
        self._answered = (frozenset(), 0.0)
        # The call follows our answer: a List sent since that question shows the pod, too.
        since_seconds = asked_at_seconds if followed == frozenset(ids) else called_at_seconds
        await self._steering.granted(self._resource, ids, since_seconds=since_seconds)
        return edits

    @property
    def real_devices(self) -> tuple[Device, ...]:
        """The devices with the NUMA nodes that they have, published or not."""
        return self._real

    def publish(self, withheld: frozenset[int], *, in_use: frozenset[DeviceId]) -> bool:
        """Publish the devices: those that are not in use and touch a withheld NUMA node without topology.

        Return whether the list is another one now.
        """
        before = self._board.current
        devices = self._real
        if withheld:
            devices = tuple(
                _shown(device, published_nodes(device, in_use=device.id in in_use, withheld=withheld))
                for device in devices
            )
        self._board.publish(before.replaced_by(devices))
        self._hidden.published(self._real, devices, withheld=withheld, now_seconds=self._clock())
        return self._board.current is not before

    async def delivered(self, timeout_seconds: float) -> bool:
        """Return once the kubelet has been sent the list; False if the time is up before."""
        return await self._board.delivered(timeout_seconds)

    def shown_by(self, allocatable: Allocatable) -> bool:
        """Return whether the kubelet reports the devices as they are published, or follows none."""
        return not self._board.followed or is_shown(self._resource, self._board.current.devices, allocatable)

    def withheld_per_node(self) -> Mapping[int, int]:
        """Return how many devices of each NUMA node are published without topology now."""
        return Counter(node for nodes in self._hidden.now.values() for node in nodes)

    async def rescan(self) -> None:
        """Look at the host once, and publish what changed."""
        scan = await asyncio.to_thread(self._scan)
        scan = scan.without(self._keeper.owners(but=self._resource))
        used = self._keeper.in_use(self._resource)
        # Before the first List nobody knows which devices pods hold: then none may be dropped.
        in_use = frozenset(self._inventory.tracked) if used is None else used
        change = self._inventory.update(scan, in_use=in_use, now_seconds=self._clock())
        self._inventory = change.inventory
        first, self._looked = not self._looked, True
        if first or change.changed:
            # The first look in any case: a source of this resource before a reload may have left devices.
            devices = change.inventory.devices
            self._index = index_devices(devices)
            self._keeper.set_devices(self._resource, devices)
            self._real = devices
            self.publish(frozenset(), in_use=frozenset())
            self._steering.reset()
        self._tell(scan, change)

    def _scan(self) -> Scan:
        """Look; a source that fails does not take the devices away that it has found before."""
        try:
            return self._source.scan()
        except Exception as exc:  # noqa: BLE001 - told once, as a warning of the scan
            return Scan(failed=True, warnings=(f"the look at the host failed: {exc!r}",))

    async def rescan_for_ever(
        self, interval_seconds: Callable[[], float], directories: DirectoryWatch
    ) -> None:
        """Look again after each interval, at file events, and soon while a change is not settled."""
        changes = ChangeWatch(directories)
        try:
            while True:
                changes.follow(self._source.watch_paths)
                await changes.wait(SETTLE_SECONDS if self._inventory.unsettled else interval_seconds())
                await self.rescan()
        finally:
            changes.follow(())

    def _tell(self, scan: Scan, change: InventoryChange) -> None:
        """Log what is new, each thing once, and set the gauges."""
        devices = change.inventory.devices
        healthy = sum(device.healthy for device in devices)
        self._metrics.set_devices(self._resource, healthy=healthy, unhealthy=len(devices) - healthy)
        self._metrics.set_scan(
            self._resource,
            left_out=len(change.inventory.left_out),
            matched_nothing=scan.matched_nothing,
            failed=scan.failed,
        )
        if change.changed:
            changes = {
                "added": change.added,
                "removed": change.removed,
                "turned_healthy": change.turned_healthy,
                "turned_unhealthy": change.turned_unhealthy,
            }
            self._log.info(
                "devices changed",
                resource=self._resource,
                devices=len(devices),
                healthy=healthy,
                **{name: ids for name, ids in changes.items() if ids},
            )
        if change.without_topology:
            self._log.warning(
                "devices without a NUMA node", resource=self._resource, ids=change.without_topology
            )
        self._tell_new(scan, change)

    def _tell_new(self, scan: Scan, change: InventoryChange) -> None:
        warnings = set(scan.warnings)
        if scan.matched_nothing and not warnings:
            warnings.add("no device matches the selectors")
        left_out = set(change.inventory.left_out)
        for warning in sorted(warnings - self._told):
            self._log.warning("device scan", resource=self._resource, warning=warning)
        new = sorted(left_out - self._told, key=lambda one: one.id)
        if new:
            reasons = {one.id: one.reason for one in new}
            self._log.info("devices left out", resource=self._resource, reasons=reasons)
        self._told = frozenset(warnings | left_out)
