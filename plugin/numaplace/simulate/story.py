"""The demo's node and pods: small enough to follow by eye, and different under every strategy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from numaplace.devices.fake import FakeHost
from numaplace.kubelet.emulator.values import ContainerSpec, EmulatedNode, PodSpec
from numaplace.model.names import ResourceName, Strategy
from numaplace.model.topology import NumaTopology

GPU = ResourceName("nvidia.com/gpu")
VF = ResourceName("intel.com/sriov_vf")
PER_NODE: Mapping[ResourceName, int] = {GPU: 4, VF: 8}
"""How many devices each of the two NUMA nodes has of each resource."""

_CPUS = {0: "0-15", 1: "16-31"}
_MEMORY_BYTES = 64 << 30


@dataclass(frozen=True, slots=True)
class DemoPod:
    """A pod of one container. ``running_on``: it runs on that NUMA node from the start."""

    name: str
    devices: Mapping[ResourceName, int]
    running_on: int | None = None

    @property
    def spec(self) -> PodSpec:
        return PodSpec("demo", self.name, (ContainerSpec("main", self.devices),))


@dataclass(frozen=True, slots=True)
class DemoSetting:
    """A strategy with weights; ``strategy`` None is the kubelet alone: the plugin is not called."""

    strategy: Strategy | None
    weights: str = ""

    @property
    def title(self) -> str:
        if self.strategy is None:
            return "kubelet alone"
        return f"{self.strategy}, {self.weights}" if self.weights else str(self.strategy)


RUNNING = (
    DemoPod("router", {VF: 3}, running_on=0),
    DemoPod("notebook", {GPU: 1}, running_on=1),
    DemoPod("encoder", {GPU: 1}, running_on=1),
)
ARRIVING = (
    DemoPod("infer", {GPU: 1}),
    DemoPod("firewall", {VF: 2}),
    DemoPod("stream", {GPU: 1, VF: 1}),
    DemoPod("train", {GPU: 3}),
)
SETTINGS = (
    DemoSetting(None),
    DemoSetting(Strategy.NONE),
    DemoSetting(Strategy.MOST_ALLOCATED),
    DemoSetting(Strategy.LEAST_ALLOCATED),
    DemoSetting(Strategy.MOST_ALLOCATED, weights="intel.com/sriov_vf=10"),
)


def machine() -> EmulatedNode:
    cpus = {0: frozenset(range(16)), 1: frozenset(range(16, 32))}
    return EmulatedNode(
        NumaTopology(nodes=(0, 1), cpus=cpus, distances={0: {0: 10, 1: 21}, 1: {0: 21, 1: 10}}),
        memory_bytes={0: _MEMORY_BYTES, 1: _MEMORY_BYTES},
    )


def build_host(root: Path) -> FakeHost:
    """Write the node's sysfs, procfs and devfs: per NUMA node a dual-port NIC with 8 VFs, and 4 GPUs."""
    host = FakeHost(root)
    for node, cpus in _CPUS.items():
        distances = (10, 21) if node == 0 else (21, 10)
        host.numa_node(node, cpus=cpus, memory_bytes=_MEMORY_BYTES, distances=distances)
        for port in (0, 1):
            host.pf(
                f"0000:{node + 1}b:00.{port}",
                f"ens{node + 1}f{port}",
                numa=node,
                vfs=4,
                vf_offset=0x80,
                vf_stride=2,
            )
        for slot in range(4):
            host.gpu("nvidia", f"0000:{node + 5}{slot}:00.0", numa=node)
    return host


def configuration(setting: DemoSetting, *, root: Path, host: FakeHost) -> dict[str, object]:
    return {
        "strategy": str(setting.strategy or Strategy.NONE),
        "weights": setting.weights,
        # A late List on a busy machine would split a container, but the demo shows placement.
        "deadline": "10s",
        "resources": [
            {"name": VF, "sriov": {"drivers": ["iavf"]}},
            {"name": GPU, "gpu": {"vendor": "nvidia"}},
        ],
        "kubelet": {
            "devicePluginDirectory": str(root / "device-plugins"),
            "podResourcesSocket": str(root / "pod-resources/kubelet.sock"),
        },
        "host": {
            "sysfs": str(host.roots.sysfs),
            "devfs": str(host.roots.devfs),
            "procfs": str(host.roots.procfs),
        },
        "http": {"address": ""},
    }
