"""Devices that are found on the host: scans, their results, and what a container gets with a device."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from numaplace.daemon.resources.change_watch import ChangeWatch
from numaplace.daemon.resources.context import ResourceContext, ResourceSettings
from numaplace.daemon.resources.host_look import HostLook, Look
from numaplace.daemon.resources.scan_log import ScanLog
from numaplace.daemon.resources.supply import PutDevices
from numaplace.devices.inventory import Inventory, InventoryChange
from numaplace.devices.pci import PCI_ADDRESS
from numaplace.devices.scan import Scan, Source
from numaplace.errors import PeerError
from numaplace.kubelet.api import deviceplugin_pb2 as pb
from numaplace.kubelet.plugin.render import container_response, plugin_options
from numaplace.model.device import Device, combine
from numaplace.model.names import DeviceId, ResourceName
from numaplace.model.pacing import Backoff
from numaplace.state.node_state import NodeState

FIRST_LIST_SECONDS = 1.0
"""So long the first scan of all waits for a List: it shows the devices that pods hold as other resources."""

SETTLE_SECONDS = 2.0
"""Time to the next scan when a device has changed and the change is not confirmed yet."""

RETRY_SECONDS = 1.0
"""Time to the next scan after one that has failed or was incomplete; it doubles up to the usual interval."""

MAX_GONE = 1024
"""So many removed devices can still be allocated: the kubelet may be about to do so."""

_HARDWARE_ID = re.compile(rf"{PCI_ADDRESS.pattern}|GPU-.+")
"""Ids that name the same device under every resource; ``0`` of another plugin is something else."""


class HostSupply:
    """Implements ``Supply`` with a device source."""

    def __init__(
        self, resource: ResourceName, source: Source, context: ResourceContext, settings: ResourceSettings
    ) -> None:
        self._resource = resource
        self._context = context
        self._interval_seconds = settings.rescan_interval_seconds
        self._host = HostLook(source, resource)
        self._changes = ChangeWatch(context.directories)
        self._log = ScanLog(resource, context.metrics, context.log)
        self._inventory = Inventory()
        self._gone: dict[DeviceId, Device] = {}
        self._looked = self._complete = False
        self._seen: Mapping[DeviceId, Device] = {}
        self._hides_nothing: frozenset[str] = frozenset()
        self._retry = Backoff(first_seconds=RETRY_SECONDS, longest_seconds=math.inf)
        self._put: PutDevices = lambda _: None

    @property
    def options(self) -> pb.DevicePluginOptions:
        return plugin_options()

    def reload(self, settings: ResourceSettings) -> None:
        self._interval_seconds = settings.rescan_interval_seconds

    async def run(self, put: PutDevices) -> None:
        """Scan now, after each interval, at file events, and soon after trouble or a change."""
        self._put = put
        await self._first_list()
        try:
            while True:
                await self.look()
                await self._changes.wait(self._pause_seconds)
        finally:
            self._changes.follow(())
            self._host.give_up()

    async def look(self) -> None:
        """Scan the host once; what cannot be read for a reason of ours changes nothing."""
        self._complete = False
        try:
            look = await self._host.take()
        except TimeoutError:
            self._hangs()
            return
        except Exception as exc:  # noqa: BLE001 - logged once, with its traceback
            self._log.crashed(exc)
            look = Look(Scan(failed=True))
        else:
            self._changes.follow(look.watch_paths)
            self._log.looked(look)
        state = self._context.node_state.now
        scan = look.scan.without(self._taken(state))
        if self._hides(look.trouble, scan):
            scan = self._new_only(scan)
        used = state.in_use(self._resource)
        # Before the first List it is unknown which devices pods hold: none may be dropped.
        in_use = frozenset(self._inventory.tracked) if used is None else used
        change = self._inventory.update(scan, in_use=in_use, now_seconds=self._context.clock())
        self._take(change)
        self._complete = not (scan.failed or look.trouble)
        self._log.changed(scan, change, complete=self._complete)

    async def allocate(self, ids: Sequence[DeviceId]) -> pb.AllocateResponse:
        """Answer for every offered device, and for those removed lately."""
        devices = [self._find(device_id) for device_id in ids]
        missing = [device_id for device_id, device in zip(ids, devices, strict=True) if device is None]
        if missing:
            raise PeerError(f"unknown device ids: {', '.join(missing)}", code="NOT_FOUND")
        edits = combine(device.edits for device in devices if device is not None)
        return pb.AllocateResponse(container_responses=[container_response(edits)])

    async def pre_start(self, ids: Sequence[DeviceId]) -> pb.PreStartContainerResponse:
        return pb.PreStartContainerResponse()

    async def _first_list(self) -> None:
        first_list = self._context.node_state.first_list
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_LIST_SECONDS):
                await first_list.wait()
        # The resources take turns: only the first one may wait.
        first_list.set()

    @property
    def _pause_seconds(self) -> float:
        usual = SETTLE_SECONDS if self._inventory.unsettled else self._interval_seconds
        if not self._complete:
            return self._retry.pause(longest_seconds=usual)
        self._retry.reset()
        return usual

    def _taken(self, state: NodeState) -> Mapping[DeviceId, str]:
        """Return which devices other resources have, and how.

        The kubelet knows a device by resource and id: it would give one that a pod holds to another pod.
        """
        held = {
            key: f"held by a pod as {name}"
            for key, name in state.holders(but=self._resource).items()
            if name in state.devices or _HARDWARE_ID.fullmatch(key)
        }
        offered = state.owners(but=self._resource).items()
        return held | {key: f"offered as {name} already" for key, name in offered}

    def _hides(self, trouble: Collection[str], scan: Scan) -> bool:
        """Return whether what cannot be read may be why devices are not seen, or look different.

        What could not be read when they were last seen is not: one such file for ever changes nothing.
        """
        if scan.failed:
            return False
        seen = {device.id: device for device in scan.devices}
        if self._seen.items() <= seen.items() or self._hides_nothing.issuperset(trouble):
            self._seen, self._hides_nothing = seen, frozenset(trouble)
            return False
        return bool(trouble)

    def _new_only(self, scan: Scan) -> Scan:
        known = self._inventory.tracked
        new = tuple(device for device in scan.devices if device.id not in known)
        return replace(scan, devices=(*self._inventory.devices, *new)) if new else Scan(failed=True)

    def _hangs(self) -> None:
        self._log.hangs(self._inventory.devices)
        if not self._looked:
            # Devices that a former source of this resource has left are free for others.
            self._context.node_state.set_devices(self._resource, ())

    def _take(self, change: InventoryChange) -> None:
        before, self._inventory = self._inventory, change.inventory
        for device_id in change.added:
            self._gone.pop(device_id, None)
        for device_id in change.removed:
            self._gone[device_id] = before.tracked[device_id].device
        while len(self._gone) > max(MAX_GONE, len(change.removed)):
            del self._gone[next(iter(self._gone))]
        first, self._looked = not self._looked, True
        if first or change.changed:
            # The first scan in any case: a former source of this resource may have left devices.
            self._put(change.inventory.devices)

    def _find(self, device_id: DeviceId) -> Device | None:
        tracked = self._inventory.tracked.get(device_id)
        return tracked.device if tracked else self._gone.get(device_id)
