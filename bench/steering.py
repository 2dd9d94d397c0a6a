"""Allocate while steering: the next withheld set is computed and delivered before the answer.

A large machine and many declared requests, on an emulated kubelet with the policy ``single-numa-node``;
daemon and kubelet are processes of their own. What is measured is what the kubelet waits for: the List, the
decision, the new lists and their delivery included.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from numaplace.devices.fake import FakeHost
from numaplace.engine.options import PolicyName
from numaplace.kubelet.emulator import ContainerSpec, EmulatedNode, KubeletEmulator, PodSpec
from numaplace.model.names import CPU, MEMORY, ResourceName
from numaplace.model.topology import NumaTopology
from numaplace.simulate.process import running_daemon

from bench.stats import Row, percentile

NODES, RESOURCES, DEVICES_PER_NODE, CPUS_PER_NODE = 8, 6, 8, 16
REQUESTS = 50
KEPT_PODS = 30
PODS_PER_SECOND = 15.0
"""Few enough for the daemon's own rate limit for PodResources: latency is measured, not waiting."""

GIB = 1 << 30

Request = Mapping[ResourceName, int]


def measure_steering(folder: Path, *, calls: int) -> list[Row]:
    """Return p50 and p99 of Allocate, in milliseconds, with one request and with many."""
    rows: list[Row] = []
    for number, requests in enumerate((1, REQUESTS)):
        (part := folder / str(number)).mkdir(parents=True)
        taken = asyncio.run(_measured(part, requests=requests, calls=calls))
        kinds = f"{NODES} nodes, {RESOURCES} resources, {requests} request{'s' if requests > 1 else ''}"
        rows += [
            Row(f"Allocate while steering, {kinds}: p{percent}", "ms", percentile(taken, percent), 0.0)
            for percent in (50, 99)
        ]
    return rows


async def _measured(folder: Path, *, requests: int, calls: int) -> list[float]:
    host, cpus = _host(folder)
    requests = _requests(requests)
    machine = EmulatedNode(
        NumaTopology(tuple(cpus), {node: frozenset(of_node) for node, of_node in cpus.items()}),
        memory_bytes=dict.fromkeys(cpus, 64 * GIB),
        reserved_cpus=frozenset(range(0, NODES * CPUS_PER_NODE, CPUS_PER_NODE)),
        topology_policy=PolicyName.SINGLE_NUMA_NODE,
    )
    kubelet = KubeletEmulator(folder, machine, seed=1)
    config = _config(folder, host, kubelet, requests)
    async with kubelet, running_daemon(config) as daemon:
        for resource in _names():
            await kubelet.wait_registered(resource, count=NODES * DEVICES_PER_NODE)
        # With a reason to withhold nothing, steering would not be measured.
        await daemon.wait_line(
            lambda line: line["event"] == "steering" and not line["why"], timeout_seconds=30
        )
        await _churn(kubelet, requests, calls=calls)
    return [1000 * one.seconds for one in kubelet.calls if one.method == "Allocate"][-calls:]


async def _churn(kubelet: KubeletEmulator, requests: list[Request], *, calls: int) -> None:
    """Admit pods until ``calls`` Allocate calls were made; the oldest pods are deleted."""
    rng, number, alive = Random(1), 0, []
    loop = asyncio.get_running_loop()
    while sum(one.method == "Allocate" for one in kubelet.calls) < calls:
        due = loop.time() + 1 / PODS_PER_SECOND
        request, number = dict(rng.choice(requests)), number + 1
        cpu, memory = request.pop(CPU), request.pop(MEMORY)
        pod = PodSpec("bench", f"p{number}", (ContainerSpec("c", request, cpu, memory),))
        if (await kubelet.admit(pod)).admitted:
            alive.append(pod)
        if len(alive) > KEPT_PODS:
            await kubelet.remove(alive.pop(rng.randrange(len(alive))))
        await asyncio.sleep(max(0.0, due - loop.time()))


def _names() -> list[ResourceName]:
    return [ResourceName(f"bench.example.com/r{number}") for number in range(RESOURCES)]


def _requests(count: int) -> list[Request]:
    """Return ``count`` different requests: one to three resources, with CPUs and memory."""
    names = _names()
    kinds = product(range(RESOURCES), (1, 2, 3), (1, 2, 4))
    return [
        {**{names[(first + more) % RESOURCES]: 1 for more in range(wide)}, CPU: cpus, MEMORY: cpus * GIB}
        for first, wide, cpus in list(kinds)[:count]
    ]


def _host(folder: Path) -> tuple[FakeHost, Mapping[int, range]]:
    host = FakeHost(folder / "host")
    cpus = {}
    for node in range(NODES):
        cpus[node] = range(node * CPUS_PER_NODE, (node + 1) * CPUS_PER_NODE)
        host.numa_node(node, cpus=f"{cpus[node].start}-{cpus[node].stop - 1}", memory_bytes=64 * GIB)
    return host, cpus


def _config(folder: Path, host: FakeHost, kubelet: KubeletEmulator, requests: list[Request]) -> Path:
    resources = []
    for index, name in enumerate(_names()):
        file = folder / f"r{index}.yaml"
        rows = [
            {"id": f"r{index}-{node}-{number}", "numaNode": node}
            for node in range(NODES)
            for number in range(DEVICES_PER_NODE)
        ]
        file.write_text(json.dumps(rows))
        resources.append({"name": name, "declared": {"file": str(file)}})
    reserved = ",".join(str(cpu) for cpu in range(0, NODES * CPUS_PER_NODE, CPUS_PER_NODE))
    (folder / "kubelet.yaml").write_text(json.dumps(_kubelet(reserved)))
    document: dict[str, Any] = {
        "strategy": "least-allocated",
        "resources": resources,
        "steering": {"mode": "always", "requests": requests},
        "kubelet": {
            "devicePluginDirectory": str(kubelet.device_plugins_dir),
            "podResourcesSocket": str(kubelet.pod_resources_socket),
            "configFile": str(folder / "kubelet.yaml"),
        },
        "host": {
            "sysfs": str(host.roots.sysfs),
            "devfs": str(host.roots.devfs),
            "procfs": str(host.roots.procfs),
        },
        "http": {"address": "off"},
    }
    file = folder / "config.yaml"
    file.write_text(json.dumps(document))
    return file


def _kubelet(reserved: str) -> dict[str, str]:
    return {
        "kind": "KubeletConfiguration",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "topologyManagerPolicy": "single-numa-node",
        "cpuManagerPolicy": "static",
        "memoryManagerPolicy": "Static",
        "reservedSystemCPUs": reserved,
    }
