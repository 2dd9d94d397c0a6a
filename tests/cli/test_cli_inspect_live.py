from __future__ import annotations

import asyncio
import io
import json

from cli_runner import make_sysfs
from numaplace.cli.console import Console
from numaplace.cli.main import main
from numaplace.kubelet.emulator import KubeletEmulator
from numaplace.kubelet.emulator.values import ContainerSpec, EmulatedNode, PodSpec
from numaplace.model.topology import NumaTopology

TOPOLOGY = NumaTopology((0, 1), {0: frozenset(range(4)), 1: frozenset(range(4, 8))})


async def test_inspect_reads_a_kubelets_socket(tmp_path):
    sysfs = make_sysfs(tmp_path)
    node = EmulatedNode(TOPOLOGY, memory_bytes={0: 2**30, 1: 2**30})
    pod = PodSpec("default", "pinned", (ContainerSpec("main", cpus=2, memory_bytes=2**20),))
    console = Console(out=io.StringIO(), err=io.StringIO(), env={})
    async with KubeletEmulator(tmp_path, node) as kubelet:
        assert (await kubelet.admit(pod, affinity=0b10)).admitted
        path = tmp_path / "pod-resources/kubelet.sock"
        argv = ["inspect", "--socket", str(path), "--sysfs", str(sysfs), "-o", "json"]
        assert await asyncio.to_thread(main, argv, console) == 0
    shown = json.loads(console.out.getvalue())
    (container,) = shown["pods"][0]["containers"]
    assert container["numaNodes"] == [1]
    assert len(container["cpus"]) == 2
    cpu = next(one for one in shown["resources"] if one["name"] == "cpu")
    assert [node["allocated"] for node in cpu["numaNodes"]] == [0, 2]
