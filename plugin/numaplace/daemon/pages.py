"""What the HTTP pages of a node show: read on the event loop, written in the server's threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from numaplace.daemon.node_state import NodeStateHolder
from numaplace.daemon.resources.in_service import ResourcesInService
from numaplace.daemon.runtime.http import Pages, serve_http
from numaplace.daemon.runtime.logs import EventLog
from numaplace.daemon.steering.page import SteeringView, steering_document
from numaplace.kubelet.podresources.poller import Poller
from numaplace.metrics.metrics import Metrics


@dataclass(slots=True)
class NodePages:
    """The pages of one node. ``steering`` is what ``/steering`` shows; ``serving``: it is not stopping."""

    node_state: NodeStateHolder
    poller: Poller
    resources: ResourcesInService
    steering: Callable[[], SteeringView]
    metrics: Metrics
    log: EventLog
    serving: bool = field(default=False, init=False)

    @contextmanager
    def served(self, listen: tuple[str, int] | None) -> Iterator[int | None]:
        if listen is None:
            yield None
            return
        pages = Pages(
            self._refresh,
            self.metrics.render,
            self._ready,
            self._failed,
            {"/steering": lambda: partial(steering_document, self.steering())},
        )
        with serve_http(listen, pages) as port:
            yield port

    def _failed(self, exc: Exception) -> None:
        self.log.error("page failed", exc=exc)

    def _refresh(self) -> None:
        """Set the gauges that are worth setting for a scrape only."""
        if snapshot := self.node_state.now.snapshot():
            self.metrics.set_snapshot(snapshot)
        for name, registered in self.resources.registered.items():
            self.metrics.set_registered(name, registered=registered)
        status = self.steering().status
        self.metrics.steering.set_state(
            {name: one.withheld_per_node() for name, one in self.resources.topologies.items()},
            breaker_open=None if status is None else status.held_off_seconds is not None,
        )

    def _ready(self) -> tuple[bool, str]:
        """Ready: every resource is registered. A missing List does not count: pods are placed without it."""
        if not self.serving:
            return False, "stopping"
        missing = [name for name, registered in self.resources.registered.items() if not registered]
        state = "" if self.poller.latest else "; PodResources has not answered yet"
        if missing:
            return False, f"not registered with the kubelet: {', '.join(missing)}{state}"
        return True, f"ready{state}"
