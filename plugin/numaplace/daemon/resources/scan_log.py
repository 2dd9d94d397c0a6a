"""What the log and the metrics say about scans of the host: each thing once."""

from __future__ import annotations

import time
from collections.abc import Collection, Set

from numaplace.daemon.resources.host_look import Look
from numaplace.daemon.runtime.logs import EventLog
from numaplace.daemon.runtime.trouble_log import TroubleLog
from numaplace.devices.inventory import InventoryChange
from numaplace.devices.scan import LeftOut, Scan
from numaplace.metrics.metrics import Metrics
from numaplace.model.device import Device
from numaplace.model.names import ResourceName


class ScanLog:
    """Of one resource."""

    def __init__(self, resource: ResourceName, metrics: Metrics, log: EventLog) -> None:
        self._resource = resource
        self._metrics = metrics
        self._log = log
        self._crash = TroubleLog(log, "device scan failed", clock=time.monotonic)
        self._hang = TroubleLog(
            log, "device scan hangs", over="device scan works again", clock=time.monotonic
        )
        self._incomplete = TroubleLog(log, "device scan is incomplete, will retry; known devices stay",
                                      over="device scan is complete again", clock=time.monotonic)  # fmt: skip
        self._logged: frozenset[LeftOut | str] = frozenset()

    def crashed(self, exc: Exception) -> None:
        self._crash.happened(repr(exc), exc=exc, resource=self._resource)

    def hangs(self, devices: Collection[Device]) -> None:
        self._hang.happened(resource=self._resource, advice="a driver or file system does not answer")
        self._metrics.set_scan(self._resource, left_out=len(self._logged), matched_nothing=False, failed=True)
        self._set_devices(devices)

    def looked(self, look: Look) -> None:
        self._hang.ended(resource=self._resource)
        self._crash.ended()
        if look.trouble:
            self._incomplete.happened(resource=self._resource, reason=look.trouble[0])
        else:
            self._incomplete.ended(resource=self._resource)

    def changed(self, scan: Scan, change: InventoryChange, *, complete: bool) -> None:
        """Log what is new, and set the gauges."""
        matched_nothing = complete and scan.matched_nothing
        devices = change.inventory.devices
        healthy = self._set_devices(devices)
        self._metrics.set_scan(
            self._resource,
            left_out=len(change.inventory.left_out),
            matched_nothing=matched_nothing,
            failed=not complete,
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
        warnings = set(scan.warnings)
        if matched_nothing and not warnings:
            warnings.add("no device matches the selectors")
        self._log_new(warnings, change.inventory.left_out)

    def _set_devices(self, devices: Collection[Device]) -> int:
        healthy = sum(device.healthy for device in devices)
        self._metrics.set_devices(self._resource, healthy=healthy, unhealthy=len(devices) - healthy)
        return healthy

    def _log_new(self, warnings: Set[str], left_out: Collection[LeftOut]) -> None:
        for warning in sorted(warnings - self._logged):
            self._log.warning("device scan", resource=self._resource, warning=warning)
        new = sorted(set(left_out) - self._logged, key=lambda one: one.id)
        if new:
            reasons = {one.id: one.reason for one in new}
            self._log.info("devices left out", resource=self._resource, reasons=reasons)
        self._logged = frozenset((*warnings, *left_out))
