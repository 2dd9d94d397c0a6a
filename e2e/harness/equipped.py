"""A simulated node with cards and, when asked, numaplace's daemon on it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness import podresources
from harness.apiserver import Cluster
from harness.backend import SimulatedNode, Tools, simulated_node
from harness.daemon import Daemon
from harness.flows import Placement, placement
from harness.hardware import Hardware, install
from harness.kubelet import KubeletOptions
from harness.logs import LogKeeper
from harness.plugin import SmallPlugin
from harness.pods import Pod
from harness.steering import outcomes, wait_decided, withheld
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
        self,
        strategy: str,
        *,
        weights: str = "",
        pod_resources_socket: Path | None = None,
        steering: Mapping[str, object] | None = None,
    ) -> dict[str, object]:
        """Return a daemon configuration for all cards of this node; it steers if ``steering`` is given."""
        kubelet, root = self.node.kubelet, self.hardware.root
        return {
            "strategy": strategy,
            "weights": weights,
            "resources": [{"name": name, **source} for name, source in self.hardware.sources.items()],
            "cluster": {"enabled": False},
            "kubelet": {
                "devicePluginDirectory": str(kubelet.device_plugins),
                "podResourcesSocket": str(pod_resources_socket or kubelet.pod_resources_socket),
                **({} if steering is None else {"configFile": str(kubelet.config_file)}),
            },
            "steering": {"mode": "off"} if steering is None else {"mode": "auto", **steering},
            # What has gone is known by the next List only.
            **({} if steering is None else {"pollInterval": "500ms"}),
            "host": {"sysfs": str(root / "sys"), "devfs": str(root / "dev"), "procfs": str(root / "proc")},
        }

    @contextlib.contextmanager
    def daemon(
        self,
        strategy: str,
        *,
        weights: str = "",
        pod_resources_socket: Path | None = None,
        steering: Mapping[str, object] | None = None,
        cluster: Cluster | None = None,
        keep: Collection[Pod] = (),
        settings: Mapping[str, object] | None = None,
    ) -> Iterator[Daemon]:
        """Run a daemon until the block ends; then only pods of ``keep`` are left, and no free devices.

        ``settings`` are further keys of its configuration.
        """
        folder = self.node.folder / f"daemon{next(self._numbers)}"
        config = self.configuration(
            strategy, weights=weights, pod_resources_socket=pod_resources_socket, steering=steering
        )
        config |= settings or {}
        if cluster is not None:
            config |= cluster.config
        daemon = Daemon(folder, config, env={} if cluster is None else cluster.env)
        with self.logs.watching("numaplace", daemon.log):
            try:
                daemon.start()
                self.wait_registered(daemon)
                yield daemon
            finally:
                try:
                    self.node.clear(but={pod.name for pod in keep})
                finally:
                    daemon.kill()
        self._wait_gone()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Give the kubelet the same devices by plugins without any preference; at the end no pod is left."""
        plugins = [
            SmallPlugin(
                self.node.kubelet.device_plugins, resource, {one: (node,) for one, node in devices.items()}
            )
            for resource, devices in self.hardware.devices.items()
        ]
        try:
            for plugin in plugins:
                plugin.register()
            for resource, devices in self.hardware.devices.items():
                self.node.wait_for_devices(resource, len(devices))
            yield
            self.node.clear()
        finally:
            for plugin in plugins:
                plugin.stop()
        self._wait_gone()

    def _wait_gone(self) -> None:
        until(
            lambda: not self.node.allocatable().keys() & self.hardware.devices.keys(),
            "the kubelet to see that the plugins are gone",
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

    def hidden(self) -> frozenset[str]:
        """The healthy devices that the kubelet sees without topology."""
        shown = podresources.shown_devices(self.node.kubelet.pod_resources_socket)
        return frozenset(
            id_
            for resource in self.hardware.devices
            for id_, nodes in shown.get(resource, {}).items()
            if not nodes
        )

    def wait_withheld(self, daemon: Daemon, expected: Mapping[str, frozenset[int]]) -> None:
        """Wait until the kubelet sees just the free devices on these NUMA nodes without topology.

        A device that a pod had keeps its topology until the daemon knows that it is free again.
        """
        wait_decided(daemon)

        def wanted() -> frozenset[str]:
            boxes = [box for containers in self.node.held().values() for box in containers.values()]
            taken = {id_ for box in boxes for ids in box.devices.values() for id_ in ids}
            healthy = self.node.allocatable()
            return frozenset(
                id_
                for resource, nodes in expected.items()
                for id_ in healthy.get(resource, ())
                if id_ not in taken and self.hardware.devices[resource][id_] in nodes
            )

        until(
            lambda: withheld(daemon) == expected and self.hidden() == wanted(),
            f"{dict(expected)} to be withheld",
            detail=lambda: (withheld(daemon), sorted(self.hidden()), outcomes(daemon)),
        )

    def placement(self) -> Placement:
        return placement(self.node, self.hardware.node_of)


@contextlib.contextmanager
def equipped_node(
    tools: Tools,
    scratch: Path,
    *,
    numa_nodes: int,
    options: KubeletOptions,
    logs: LogKeeper,
    cpus_each: int = 4,
    memory_gib_each: int = 32,
    hugepages_gib_each: int = 0,
    equip: Callable[[Path, SimulatedTopology], Hardware] = install,
) -> Iterator[EquippedNode]:
    """Start a node with ``numa_nodes`` NUMA nodes and what ``equip`` puts on them, by default their cards."""
    topology = SimulatedTopology.uniform(
        numa_nodes,
        cpus_each=cpus_each,
        memory_gib_each=memory_gib_each,
        hugepages_gib_each=hugepages_gib_each,
    )
    with simulated_node(tools, scratch, topology=topology, options=options, logs=logs) as node:
        hardware = equip(node.folder / "host", topology)
        yield EquippedNode(node, hardware, logs)
