"""What the parts of a resource work with."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from numaplace.daemon.node_state import NodeStateHolder
from numaplace.daemon.preference.decider import Decider, DecisionSettings
from numaplace.daemon.runtime.logs import EventLog
from numaplace.kubelet.directories import DirectoryWatch
from numaplace.metrics.metrics import Metrics
from numaplace.model.names import DeviceId, ResourceName


class ResourceSteering(Protocol):
    """What a service reports to steering (``daemon.steering.controller``)."""

    def active(self) -> None: ...

    async def deliver_next(
        self, resource: ResourceName, ids: Collection[DeviceId], *, since_seconds: float
    ) -> None: ...

    def lost_alignment(self, resource: ResourceName) -> bool: ...

    def reset(self) -> None: ...

    def kubelet_lost(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ResourceContext:
    """Shared by all resources of a node. ``clock`` is monotonic, in seconds."""

    node_state: NodeStateHolder
    decider: Decider
    steering: ResourceSteering
    directories: DirectoryWatch
    metrics: Metrics
    log: EventLog
    clock: Callable[[], float]


@dataclass(frozen=True, slots=True)
class ResourceSettings:
    """What a reload may change while a resource is served."""

    decision: DecisionSettings
    rescan_interval_seconds: float
