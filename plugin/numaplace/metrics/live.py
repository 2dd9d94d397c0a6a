"""Metrics that are read from the newest snapshot when they are scraped.

Giving them a new snapshot costs one assignment, so an admission pays nothing for them, and series of
resources that are gone go with the snapshot that had them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from numaplace.state.snapshot import Snapshot

_PER_NODE = (
    ("allocatable", "What can be allocated to pods: exclusive CPUs, bytes or healthy devices."),
    ("allocated", "What is allocated to pods: exclusive CPUs, bytes or healthy devices."),
    ("score", "Score of KEP-6007: percent allocated, at least 1; 0 without capacity."),
)


class SnapshotCollector(Collector):
    """Collects from ``snapshot`` and ``cluster_connected``; while they are ``None``, there are no samples.

    The scrape runs in another thread than the event loop: the snapshot is immutable and taken once.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.snapshot: Snapshot | None = None
        self.cluster_connected: bool | None = None
        self._clock = clock

    def collect(self) -> Iterable[Metric]:
        snapshot = self.snapshot
        age = _gauge("snapshot_age_seconds", "Age of the newest snapshot of the allocation state.")
        per_node = [_gauge(name, text, "resource", "numa_node") for name, text in _PER_NODE]
        fit = _gauge(
            "largest_single_node_fit",
            "Largest request that still fits one NUMA node: exclusive CPUs, bytes or devices.",
            "resource",
        )
        containers = _gauge(
            "numa_container_count",
            "Containers that hold devices, exclusive CPUs or memory of the NUMA node (KEP-6007).",
            "numa_node",
        )
        connected = _gauge(
            "cluster_watch_connected", "1 while this node's pods are watched at the API server."
        )
        if self.cluster_connected is not None:
            connected.add_metric((), float(self.cluster_connected))
        if snapshot is not None:
            age.add_metric((), snapshot.age_seconds(self._clock()))
            _add_resources(snapshot, per_node, fit)
            for node, count in snapshot.containers_per_node().items():
                containers.add_metric((str(node),), count)
        return (age, *per_node, fit, containers, connected)


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"numaplace_{name}", text, labels=labels)


def _add_resources(snapshot: Snapshot, per_node: Iterable[GaugeMetricFamily], fit: GaugeMetricFamily) -> None:
    for resource in snapshot.resources:
        fit.add_metric((resource,), snapshot.largest_single_node_fit(resource))
        for node, usage in snapshot.per_node(resource).items():
            amounts = (usage.allocatable, usage.allocated, usage.score)
            for family, amount in zip(per_node, amounts, strict=True):
                family.add_metric((resource, str(node)), amount)
