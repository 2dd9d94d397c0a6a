"""The node's state on the event loop: ``now`` is its value, and what happens replaces it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence

from numaplace.model.device import Device
from numaplace.model.names import DeviceId, Ids, IdsByResource, ResourceName
from numaplace.model.observation import Observation
from numaplace.model.topology import NumaTopology
from numaplace.state.attribution import Specs
from numaplace.state.node_state import NodeState
from numaplace.state.question import Requester


class NodeStateHolder:
    """The methods are the events of ``numaplace.state.node_state``. ``clock`` is monotonic, in seconds."""

    def __init__(self, topology: NumaTopology, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.now = NodeState(topology)
        self.first_list = asyncio.Event()
        """Set by the first List, and when it was waited for in vain."""

    def observed(self, observation: Observation) -> None:
        self.now = self.now.observed(observation)
        self.first_list.set()

    def set_devices(self, resource: ResourceName, devices: Collection[Device] | None) -> None:
        """Replace a resource's devices; ``None`` when the resource is no longer ours."""
        self.now = self.now.with_devices(resource, devices)

    def offered(self, resource: ResourceName, ids: Ids) -> NodeState:
        self.now = self.now.offered(resource, ids, now_seconds=self._clock())
        return self.now

    def answered(
        self,
        resource: ResourceName,
        ids: Sequence[DeviceId],
        *,
        requester: Requester | None,
        asked_at_seconds: float,
    ) -> None:
        """Note our preference: the Allocate that follows it, with the same ids, is for the same pod."""
        self.now = self.now.answered(
            resource, ids, requester=requester, asked_at_seconds=asked_at_seconds, now_seconds=self._clock()
        )

    def granted(self, resource: ResourceName, ids: Sequence[DeviceId]) -> float:
        """Note that we answered Allocate with these ids; return since when a sent List shows the pod."""
        now_seconds = self._clock()
        self.now = self.now.granted(resource, ids, now_seconds=now_seconds)
        grant = self.now.ledger.latest
        return now_seconds if grant is None else grant.shown_since_seconds

    def written(self, checkpoint: IdsByResource | None, *, since: NodeState | None = None) -> None:
        """Note a new version of the kubelet's checkpoint; ``None``: it cannot be read.

        ``since`` is the state when it was opened.
        """
        self.now = self.now.written(checkpoint, since=since or self.now)

    def announced(self, specs: Specs) -> bool:
        """Note the pods of the API server; return whether one that was known has gone."""
        before = self.now.logs.announced.known
        self.now = self.now.announced(specs, now_seconds=self._clock())
        return not before <= self.now.logs.announced.known

    def kubelet_lost(self) -> None:
        self.now = self.now.kubelet_lost(now_seconds=self._clock())

    def kubelet_restarted(self) -> None:
        self.now = self.now.kubelet_restarted(now_seconds=self._clock())
