"""Metrics of steering. What is withheld is set at each scrape; the rest is counted as it happens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from numaplace.metrics.family import PREFIX, Families
from numaplace.metrics.labels import SteeredEffect, SteeringFailure
from numaplace.model.names import ResourceName
from numaplace.steering.decision import SteeringDecision

STEERS = "withheld"
"""``outcome`` of a decision that withholds something; all others are a reason (``steering.decision``)."""

DeviceCounts = Mapping[ResourceName, Mapping[int, int]]
"""By resource and NUMA node, how many devices show no topology."""


class SteeringMetrics:
    """Methods are called on the event loop."""

    def __init__(self, families: Families) -> None:
        self._live = _WithheldCollector()
        families.registry.register(self._live)
        self._decisions = families.counter(
            "steering_decisions", "Decisions on what topology to withhold.", "outcome"
        )
        self._durations = families.histogram(
            "steering_prediction_duration_seconds", "Time to predict and decide what to withhold."
        )
        self._lists = families.counter(
            "steering_lists", "Device lists sent to the kubelet because what is withheld changed.", "resource"
        )
        self._grants = families.counter(
            "steering_grants",
            "Grants (answers to Allocate) while topology of the resource was withheld.",
            "resource",
            "effect",
        )
        self._failures = families.counter(
            "steering_failures", "Times that all topology was published because steering failed.", "reason"
        )
        for reason in SteeringFailure:
            self._failures.at(reason)
        self._trips = families.counter(
            "steering_breaker_trips", "Pods refused while topology was withheld."
        ).at()

    def count_decision(self, decision: SteeringDecision, *, duration_seconds: float) -> None:
        """Count a decision once if it withholds something, and once for each reason not to withhold more."""
        reasons = {str(one.reason) for one in decision.refusals}
        for outcome in sorted(reasons | {STEERS} if decision.steers else reasons):
            self._decisions.at(outcome).inc()
        self._durations.at().observe(duration_seconds)

    def count_list(self, resource: ResourceName) -> None:
        self._lists.at(resource).inc()

    def count_grant(self, resource: ResourceName, effect: SteeredEffect) -> None:
        self._grants.at(resource, effect).inc()

    def count_failure(self, reason: SteeringFailure) -> None:
        self._failures.at(reason).inc()

    def count_trip(self) -> None:
        self._trips.inc()

    def set_state(self, withheld: DeviceCounts, *, breaker_open: bool | None) -> None:
        """Set what is withheld now; ``breaker_open`` is ``None`` where steering is off."""
        self._live.withheld, self._live.breaker_open = withheld, breaker_open


class _WithheldCollector(Collector):
    def __init__(self) -> None:
        self.withheld: DeviceCounts = {}
        self.breaker_open: bool | None = None

    def collect(self) -> Iterable[Metric]:
        devices = GaugeMetricFamily(
            f"{PREFIX}_steering_withheld_devices",
            "Free devices that are currently published without topology.",
            labels=("resource", "numa_node"),
        )
        for resource, nodes in self.withheld.items():
            for node, count in nodes.items():
                devices.add_metric((resource, str(node)), count)
        breaker = GaugeMetricFamily(
            f"{PREFIX}_steering_breaker_open", "1 while nothing is withheld because a pod was refused."
        )
        if self.breaker_open is not None:
            breaker.add_metric((), float(self.breaker_open))
        return (devices, breaker)
