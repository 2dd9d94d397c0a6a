"""A pod's requests, as the kubelet's managers see them.

Amounts are integers: ``cpu`` in thousandths of a CPU, ``memory`` and hugepages in bytes, devices as a count.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from numaplace.managers.device_manager import ContainerKind, PodUid
from numaplace.model.names import CPU, MEMORY, Amounts, ResourceName


class QosClass(StrEnum):
    """A pod's quality-of-service class."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


@dataclass(frozen=True, slots=True)
class Container:
    """One container. A missing request was defaulted to its limit before, as the API server does."""

    name: str
    requests: Amounts = field(default_factory=dict)
    limits: Amounts = field(default_factory=dict)
    kind: ContainerKind = ContainerKind.APP

    @property
    def whole_cpus(self) -> int:
        """The requested CPUs if they are a whole number, else 0 (``isIntegralCPUAmount``)."""
        milli = self.requests.get(CPU, 0)
        return milli // 1000 if milli % 1000 == 0 else 0


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod; ``init_containers`` holds sidecars too. ``pod_level``: the pod itself has resources."""

    uid: PodUid
    namespace: str
    name: str
    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...] = ()
    pod_level: bool = False

    @property
    def in_order(self) -> tuple[Container, ...]:
        """All containers in the order of their admission."""
        return self.init_containers + self.containers

    @property
    def qos(self) -> QosClass:
        """The class by the containers' CPU and memory (``ComputePodQOS``; pod-level resources aside)."""
        guaranteed = True
        any_amount = False
        for container in self.in_order:
            for name in (CPU, MEMORY):
                request, limit = container.requests.get(name, 0), container.limits.get(name, 0)
                any_amount = any_amount or request > 0 or limit > 0
                guaranteed = guaranteed and limit > 0 and request == limit
        if not any_amount:
            return QosClass.BEST_EFFORT
        return QosClass.GUARANTEED if guaranteed else QosClass.BURSTABLE

    @property
    def effective_limits(self) -> dict[ResourceName, int]:
        """The most that the pod needs at a time (component-helpers ``PodLimits``, without overhead).

        Containers and sidecars together, or an init container with the sidecars started before it.
        """
        running: dict[ResourceName, int] = {}
        hungriest: dict[ResourceName, int] = {}
        for container in self.init_containers:
            needed = _sum(running, container.limits)
            if container.kind is ContainerKind.SIDECAR:
                running = needed
            hungriest = _larger(hungriest, needed)
        for container in self.containers:
            running = _sum(running, container.limits)
        return _larger(hungriest, running)


def _sum(a: Amounts, b: Amounts) -> dict[ResourceName, int]:
    return {name: a.get(name, 0) + b.get(name, 0) for name in {**a, **b}}


def _larger(a: Amounts, b: Amounts) -> dict[ResourceName, int]:
    return {name: max(a.get(name, 0), b.get(name, 0)) for name in {**a, **b}}
