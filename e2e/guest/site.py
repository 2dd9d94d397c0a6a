"""A guest with two NUMA nodes and all that tests want on it, used by one test after the other."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from guest.boot import VFS_PER_PORT, Guest, running_guest
from guest.daemon import GuestDaemon
from guest.keeper import GuestLogs
from guest.machine import Machine, NumaNode
from guest.node import GuestNode, Runtime
from harness.flows import Placement, placement
from harness.kubelet import KubeletOptions
from harness.waiters import until

NET = "intel.com/net_vf"
VFIO = "intel.com/vfio_vf"
SOURCES: Mapping[str, Mapping[str, object]] = {
    NET: {"sriov": {"vendors": ["8086"], "devices": ["10ca"], "drivers": ["igbvf"]}},
    VFIO: {"sriov": {"drivers": ["vfio-pci"]}},
}
POD_SECONDS = 120.0
LIMIT_SECONDS = 90.0

_VIRTIO = ("virtio-gpu-pci", "virtio-gpu-pci")
TWO_NODES = Machine((NumaNode(cpus=3, displays=_VIRTIO), NumaNode(cpus=3, displays=(*_VIRTIO, "ati-vga"))))


@dataclass
class Site:
    """A guest whose first ports have VFs with a network driver, and the second ones for userspace drivers.

    One kubelet and one daemon at a time; both go on as long as the tests ask for the same.
    """

    guest: Guest
    runtime: Runtime
    node: GuestNode
    daemon: GuestDaemon
    _kubelet: KubeletOptions | None = field(default=None)

    @property
    def machine(self) -> Machine:
        return self.guest.machine

    @property
    def ports(self) -> tuple[tuple[int, int], ...]:
        return tuple(self.machine.ports())

    def vfs(self, resource: str) -> dict[str, tuple[int, ...]]:
        """The VFs of a resource, by how the machine was made, with their NUMA nodes."""
        wanted = {NET: 0, VFIO: 1}[resource]
        return {
            self.machine.vf(node, port, index): (node,)
            for node, port in self.ports
            if port == wanted
            for index in range(VFS_PER_PORT)
        }

    def under(self, options: KubeletOptions) -> None:
        """Run a kubelet with these options."""
        if self._kubelet == options:
            return
        self.node.stop()
        self._kubelet = None
        self.node.start(options)
        self._kubelet = options

    def serve(
        self,
        strategy: str = "none",
        *,
        sources: Mapping[str, Mapping[str, object]] = SOURCES,
        more: Mapping[str, object] | None = None,
    ) -> GuestDaemon:
        """Run a daemon with these resources, and wait until the kubelet has taken them."""
        resources = [{"name": name, **source} for name, source in sources.items()]
        self.daemon.use({"strategy": strategy, "resources": resources, **(more or {})})
        for name in sources:
            until(
                lambda name=name: self.daemon.metric("numaplace_registered", resource=name) == 1,
                f"{name} to be registered",
                limit_seconds=LIMIT_SECONDS,
                detail=self.daemon.tail,
            )
        return self.daemon

    def wait_for(self, resource: str, expected: Mapping[str, tuple[int, ...]]) -> None:
        """Wait until the kubelet has exactly these healthy devices on these NUMA nodes."""
        until(
            lambda: self.node.numa_nodes().get(resource, {}) == expected,
            f"the kubelet to have {len(expected)} devices of {resource}",
            limit_seconds=LIMIT_SECONDS,
            every_seconds=0.3,
            detail=lambda: (self.node.numa_nodes().get(resource), self.daemon.tail()),
        )

    def placement(self) -> Placement:
        """Where all pods' devices are."""
        nodes = {vf: node for name in (NET, VFIO) for vf, (node,) in self.vfs(name).items()}
        return placement(self.node, nodes)


@contextlib.contextmanager
def running_site(built: Mapping[str, Path], scratch: Path, *, logs: GuestLogs) -> Iterator[Site]:
    """Run the guest until the block ends."""
    with running_guest(TWO_NODES, built, scratch, logs=logs) as guest:
        guest.make_vfs()
        runtime = Runtime(guest)
        runtime.start(built["agent"])
        site = Site(guest, runtime, GuestNode(guest), GuestDaemon(guest))
        guest.bind_vfio(*site.vfs(VFIO))
        yield site
