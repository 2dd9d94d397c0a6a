"""What all parts of steering work on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from numaplace.daemon.node_state import NodeStateHolder
from numaplace.daemon.steering.report import SteeringReport
from numaplace.daemon.steering.times import Times
from numaplace.model.names import DeviceId, ResourceName
from numaplace.model.observation import Observation
from numaplace.model.podresources import Allocatable
from numaplace.state.attribution import NO_SPECS, Specs
from numaplace.state.node_state import NodeState
from numaplace.state.snapshot import Snapshot


class PublishedResource(Protocol):
    """A resource whose published topology can be shaped (``daemon.resources.service``)."""

    def publish(self, withheld: int, *, in_use: frozenset[DeviceId]) -> bool: ...

    async def delivered(self, timeout_seconds: float) -> bool: ...

    def shown_by(self, allocatable: Allocatable) -> bool: ...


class PodResourcesLists(Protocol):
    """What steering asks PodResources for (``kubelet.podresources.poller``); ``PeerError`` where it fails."""

    def live(self, *, timeout_seconds: float) -> Awaitable[Observation]: ...

    def live_allocatable(self, *, timeout_seconds: float) -> Awaitable[Allocatable]: ...

    def follow_allocatable(self, *, on: bool) -> None: ...


class Pods(Protocol):
    """What steering has of the API server (``daemon.cluster.part``)."""

    @property
    def specs(self) -> Specs: ...

    @property
    def watching(self) -> bool:
        """Whether they are being watched, short breaks aside."""


@dataclass(frozen=True, slots=True)
class SteeringContext:
    """``resources`` returns those in service. ``pods`` is ``None`` where the API server is not used."""

    resources: Callable[[], Mapping[ResourceName, PublishedResource]]
    node: NodeStateHolder
    lists: PodResourcesLists
    pods: Pods | None
    report: SteeringReport
    clock: Callable[[], float]
    times: Times

    @property
    def state(self) -> NodeState:
        return self.node.now

    @property
    def specs(self) -> Specs:
        return NO_SPECS if self.pods is None else self.pods.specs

    @property
    def allocatable(self) -> Allocatable:
        seen = self.state.observation
        return Allocatable() if seen is None else seen.allocatable

    @property
    def snapshot(self) -> Snapshot | None:
        return self.state.snapshot()

    def in_use(self, resource: ResourceName) -> frozenset[DeviceId]:
        """Return the ids in use; nothing is withheld before that is known."""
        return self.state.in_use(resource) or frozenset()
