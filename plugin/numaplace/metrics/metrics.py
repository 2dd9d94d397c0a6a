"""All metrics of the daemon, with a registry of their own. Reference: ``docs/metrics.md``."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, Gauge, ProcessCollector, generate_latest

from numaplace.metrics.family import PREFIX, Families
from numaplace.metrics.labels import (
    API_CODES,
    CODES,
    FALLBACK_OUTCOME,
    METHODS,
    OTHER,
    Alignment,
    FallbackReason,
    RegistrationResult,
    ReloadResult,
)
from numaplace.metrics.live import SnapshotCollector
from numaplace.metrics.steering import SteeringMetrics
from numaplace.model.names import ResourceName, Strategy
from numaplace.placement.reasons import Outcome
from numaplace.state.snapshot import Snapshot


class Metrics:
    """The daemon's metrics. Methods are called on the event loop; ``render`` may be called in any thread.

    ``clock`` is the monotonic clock of the snapshots, in seconds.
    """

    def __init__(self, *, version: str, clock: Callable[[], float]) -> None:
        self._families = families = Families()
        self._registry = families.registry
        self.steering = SteeringMetrics(families)
        self._live = SnapshotCollector(clock)
        self._registry.register(self._live)
        ProcessCollector(registry=self._registry)
        self._decisions = families.counter(
            "decisions", "Answers to GetPreferredAllocation.", "resource", "strategy", "outcome"
        )
        self._fallbacks = families.counter(
            "fallbacks", "Answers with less than full knowledge, or without a decision.", "resource", "reason"
        )
        self._alignments = families.counter(
            "alignments", "Answers by whether one NUMA node has all their devices.", "resource", "alignment"
        )
        self._durations = families.histogram(
            "decision_duration_seconds", "Time from a request to its answer.", "resource"
        )
        self._score_selections = families.counter(
            "numa_score_selection",
            "Decisions whose NUMA nodes differ from the choice without scores (KEP-6007).",
            "numa_allocation_strategy",
        )
        self._devices = families.gauge("devices", "Devices that are offered.", "resource", "health")
        self._left_out = families.gauge(
            "devices_left_out", "Devices that were found but are not offered; the log says why.", "resource"
        )
        self._unmatched = families.gauge("selectors_unmatched", "1 when no device matches.", "resource")
        self._scan_failed = families.gauge(
            "device_scan_failed", "1 when the last scan of the host failed.", "resource"
        )
        self._registrations = families.counter(
            "registrations", "Registrations with the kubelet.", "resource", "result"
        )
        self._registered = families.gauge("registered", "1 while the kubelet knows the resource.", "resource")
        self._podresources = families.counter(
            "podresources_calls", "Calls of the kubelet's PodResources API.", "method", "code"
        )
        self._restarts = families.counter(
            "task_restarts", "Tasks of the daemon that ended and were started again.", "task"
        )
        self._reloads = families.counter("reloads", "Reloads of the configuration.", "result")
        for result in ReloadResult:
            self._reloads.at(result)
        self._cluster_calls = families.counter(
            "cluster_watch_calls", "Lists and watches of this node's pods at the API server.", "call", "code"
        )
        self._events = families.counter("events", "Events on pods.", "result")
        self._inotify = Gauge(
            f"{PREFIX}_inotify_available",
            "0 when sockets are watched by polling only.",
            registry=self._registry,
        )
        families.gauge("build_info", "Always 1.", "version").at(version).set(1)

    def decided(
        self,
        resource: ResourceName,
        *,
        strategy: Strategy,
        outcome: Outcome,
        score_decided: bool,
        duration_seconds: float,
        degraded: FallbackReason | None = None,
    ) -> None:
        """Count a decision; ``degraded`` says what it did not know."""
        if degraded is not None:
            self._fallbacks.at(resource, degraded).inc()
        self._decisions.at(resource, strategy, outcome).inc()
        self._durations.at(resource).observe(duration_seconds)
        if score_decided:
            self._score_selections.at(strategy).inc()

    def aligned(self, resource: ResourceName, alignment: Alignment) -> None:
        self._alignments.at(resource, alignment).inc()

    def fell_back(
        self, resource: ResourceName, *, strategy: Strategy, reason: FallbackReason, duration_seconds: float
    ) -> None:
        self._decisions.at(resource, strategy, FALLBACK_OUTCOME).inc()
        self._fallbacks.at(resource, reason).inc()
        self._durations.at(resource).observe(duration_seconds)

    def set_snapshot(self, snapshot: Snapshot) -> None:
        """Take the newest snapshot; it is read when scraped."""
        self._live.snapshot = snapshot

    def set_devices(self, resource: ResourceName, *, healthy: int, unhealthy: int) -> None:
        self._devices.at(resource, "healthy").set(healthy)
        self._devices.at(resource, "unhealthy").set(unhealthy)

    def set_scan(self, resource: ResourceName, *, left_out: int, matched_nothing: bool, failed: bool) -> None:
        """Set the results of the last scan besides the devices."""
        self._left_out.at(resource).set(left_out)
        self._unmatched.at(resource).set(int(matched_nothing))
        self._scan_failed.at(resource).set(int(failed))

    def registration(self, resource: ResourceName, *, result: RegistrationResult) -> None:
        self._registrations.at(resource, result).inc()

    def set_registered(self, resource: ResourceName, *, registered: bool) -> None:
        self._registered.at(resource).set(int(registered))

    def podresources_call(self, method: str, code: str) -> None:
        """Count a call (a ``CallObserver``); unknown methods and codes count as ``OTHER``."""
        self._podresources.at(method if method in METHODS else OTHER, code if code in CODES else OTHER).inc()

    def restarted(self, task: str) -> None:
        self._restarts.at(task).inc()

    def reloaded(self, result: ReloadResult) -> None:
        self._reloads.at(result).inc()

    def cluster_watch_call(self, call: str, code: str) -> None:
        """Count a ``list`` or ``watch`` at the API server; unknown codes count as ``OTHER``."""
        self._cluster_calls.at(call, code if code in API_CODES else OTHER).inc()

    def event(self, result: str) -> None:
        self._events.at(result).inc()

    def set_cluster_watch(self, *, connected: bool | None) -> None:
        """Set whether this node's pods are watched now; ``None``: the API server is not used."""
        self._live.cluster_connected = connected

    def set_inotify(self, *, available: bool) -> None:
        self._inotify.set(int(available))

    def forget(self, resource: ResourceName) -> None:
        self._families.forget(resource)

    def names(self) -> tuple[str, ...]:
        """Return the name of every family, with the ``_total`` of counters, sorted."""
        return tuple(
            sorted(
                family.name + ("_total" if family.type == "counter" else "")
                for family in self._registry.collect()
            )
        )

    def render(self) -> tuple[bytes, str]:
        """Return the text exposition and its content type."""
        return generate_latest(self._registry), CONTENT_TYPE_PLAIN_0_0_4
