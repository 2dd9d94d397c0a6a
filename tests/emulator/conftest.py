from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from numaplace.kubelet.emulator import EmulatedNode, KubeletEmulator, Limits
from numaplace.model.names import ResourceName
from numaplace.model.topology import NumaTopology
from smallplugin import GIB, VF, SmallPlugin, device


@pytest.fixture
def machine() -> EmulatedNode:
    return EmulatedNode(
        topology=NumaTopology(nodes=(0, 1), cpus={0: frozenset({0, 1, 2, 3}), 1: frozenset({4, 5, 6, 7})}),
        memory_bytes={0: 4 * GIB, 1: 4 * GIB},
        hugepages_bytes={ResourceName("hugepages-2Mi"): {0: 64 << 20, 1: 64 << 20}},
        reserved_cpus=frozenset({0}),
    )


@pytest.fixture
async def kubelet(root: Path, machine: EmulatedNode) -> AsyncIterator[KubeletEmulator]:
    async with KubeletEmulator(
        root, machine, seed=3, limits=Limits(dial_seconds=2, call_seconds=5)
    ) as emulator:
        yield emulator


@pytest.fixture
async def plugin(kubelet: KubeletEmulator) -> AsyncIterator[SmallPlugin]:
    """A registered plugin with two devices on each of two NUMA nodes."""
    devices = [device("a0", [0]), device("a1", [0]), device("b0", [1]), device("b1", [1])]
    async with SmallPlugin(kubelet.device_plugins_dir, VF, devices) as small:
        await small.register()
        await kubelet.wait_registered(VF, count=4)
        yield small
