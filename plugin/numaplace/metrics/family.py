"""Metric families in a registry of their own; a child is found with one dictionary access."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import Metric

PREFIX = "numaplace"
DURATION_BUCKETS_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)

M = TypeVar("M", Counter, Gauge, Histogram)


class Registry(CollectorRegistry):
    """A registry without the ``_created`` series, which double every counter and are rarely read."""

    def collect(self) -> Iterable[Metric]:
        for metric in super().collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


class Family(Generic[M]):
    """A labelled metric that keeps its children: looking one up is one dictionary access."""

    def __init__(self, metric: M, *, labels: tuple[str, ...]) -> None:
        self._metric: M = metric
        self._resource_at = labels.index("resource") if "resource" in labels else None
        self._children: dict[tuple[str, ...], M] = {}

    def at(self, *values: str) -> M:
        child = self._children.get(values)
        if child is None:
            child = self._children[values] = self._metric.labels(*values) if values else self._metric
        return child

    def forget(self, resource: str) -> None:
        if self._resource_at is None:
            return
        for values in [one for one in self._children if one[self._resource_at] == resource]:
            del self._children[values]
            self._metric.remove(*values)


class Families:
    """Makes families in one registry, and keeps them."""

    def __init__(self) -> None:
        self.registry = Registry()
        self._families: list[Family[Counter] | Family[Gauge] | Family[Histogram]] = []

    def counter(self, name: str, text: str, *labels: str) -> Family[Counter]:
        metric = Counter(f"{PREFIX}_{name}", text, labels, registry=self.registry)
        return self._keep(Family(metric, labels=labels))

    def gauge(self, name: str, text: str, *labels: str) -> Family[Gauge]:
        metric = Gauge(f"{PREFIX}_{name}", text, labels, registry=self.registry)
        return self._keep(Family(metric, labels=labels))

    def histogram(self, name: str, text: str, *labels: str) -> Family[Histogram]:
        metric = Histogram(
            f"{PREFIX}_{name}", text, labels, registry=self.registry, buckets=DURATION_BUCKETS_SECONDS
        )
        return self._keep(Family(metric, labels=labels))

    def forget(self, resource: str) -> None:
        for family in self._families:
            family.forget(resource)

    def _keep(self, family: Family[M]) -> Family[M]:
        self._families.append(family)
        return family
