"""A simulated node with cards and, when asked, numaplace's daemon on it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harness.backend import SimulatedNode, Tools, simulated_node
from harness.daemon import Daemon
from harness.flows import Placement, placement
from harness.hardware import SOURCES, Hardware, install
from harness.kubelet import KubeletOptions
from harness.logs import LogKeeper
from harness.topology import SimulatedTopology
from harness.waiters import until


@dataclass(frozen=True, slots=True)
class EquippedNode:
    """The node, its cards, and a way to run daemons on it, one at a time."""

    node: SimulatedNode
    hardware: Hardware
    logs: LogKeeper
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def configuration(
        self, strategy: str, *, weights: str = "", pod_resources_socket: Path | None = None
    ) -> dict[str, object]:
        """Return a daemon configuration for all cards of this node."""
        kubelet, root = self.node.kubelet, self.hardware.root
        return {
            "strategy": strategy,
            "weights": weights,
            "resources": [{"name": name, **source} for name, source in SOURCES.items()],
            "cluster": {"enabled": False},
            "kubelet": {
                "devicePluginDirectory": str(kubelet.device_plugins),
                "podResourcesSocket": str(pod_resources_socket or kubelet.pod_resources_socket),
            },
            "host": {"sysfs": str(root / "sys"), "devfs": str(root / "dev"), "procfs": str(root / "proc")},
        }

    @contextlib.contextmanager
    def daemon(
        self, strategy: str, *, weights: str = "", pod_resources_socket: Path | None = None
    ) -> Iterator[Daemon]:
        """Run a daemon until the block ends; then no pod is left, and the kubelet has no devices."""
        folder = self.node.folder / f"daemon{next(self._numbers)}"
        config = self.configuration(strategy, weights=weights, pod_resources_socket=pod_resources_socket)
        daemon = Daemon(folder, config)
        with self.logs.watching("numaplace", daemon.log):
            try:
                daemon.start()
                self.wait_registered(daemon)
                yield daemon
            finally:
                try:
                    self.node.clear()
                finally:
                    daemon.kill()
        until(
            lambda: not self.node.allocatable().keys() & self.hardware.devices.keys(),
            "the kubelet to see that the daemon is gone",
            detail=self.node.allocatable,
        )

    def wait_registered(self, daemon: Daemon) -> None:
        """Wait until the kubelet has every device of every resource."""

        def registered() -> bool:
            assert daemon.alive, f"the daemon ended: {daemon.tail()}"
            known = self.node.allocatable()
            return all(
                known.get(resource) == frozenset(devices)
                for resource, devices in self.hardware.devices.items()
            )

        until(registered, "all devices at the kubelet", detail=daemon.tail)

    def placement(self) -> Placement:
        return placement(self.node, self.hardware.node_of)


@contextlib.contextmanager
def equipped_node(
    tools: Tools, scratch: Path, *, numa_nodes: int, options: KubeletOptions, logs: LogKeeper
) -> Iterator[EquippedNode]:
    """Start a node with ``numa_nodes`` NUMA nodes and their cards."""
    topology = SimulatedTopology.uniform(numa_nodes)
    with simulated_node(tools, scratch, topology=topology, options=options, logs=logs) as node:
        hardware = install(node.folder / "host", topology)
        yield EquippedNode(node, hardware, logs)
