"""A small fleet: real ``numaplace run`` processes on simulated nodes, with pods and some faults.

::

    python -m charts.dashboard.preview.fleet FOLDER MINUTES

Writes ``FOLDER/prometheus.yaml`` before it starts, and ends by itself.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from numaplace.cluster.fake import FakeApiServer
from numaplace.devices.fake import FakeHost
from numaplace.engine.options import PolicyName
from numaplace.kubelet.emulator import (
    NO_FAULTS,
    ContainerSpec,
    EmulatedNode,
    Faults,
    KubeletEmulator,
    PodSpec,
)
from numaplace.model.names import ResourceName
from numaplace.model.topology import NumaTopology

GPU, VF = ResourceName("nvidia.com/gpu"), ResourceName("intel.com/sriov_vf")
CPUS, MEMORY_BYTES = 32, 128 << 30
GPUS, VFS = 4, 8
NUMA = (0, 1)
JOB = "numaplace/numaplace"
STRATEGIES = {
    "gpu-01": "most-allocated", "gpu-02": "most-allocated", "gpu-03": "most-allocated", "gpu-04": "none",
    "net-01": "least-allocated", "net-02": "least-allocated",
    "tm-01": "least-allocated", "tm-02": "least-allocated",
}  # fmt: skip
POLICIES = {"tm-01": PolicyName.SINGLE_NUMA_NODE, "tm-02": PolicyName.RESTRICTED}
"""The nodes whose kubelet has a Topology Manager, so that the daemon steers it."""

RESERVED = frozenset({0, CPUS})
LIFE_SECONDS = ((20, 90), (10, 35))
"""Of pods on other nodes, and on those with a Topology Manager: these should not be full."""

POD_CPUS, POD_MEMORY_BYTES = 4, 8 << 30


@dataclass
class SimulatedNode:
    """A node: its host, its kubelet and its daemon's process."""

    name: str
    root: Path
    port: int
    host: FakeHost
    kubelet: KubeletEmulator
    gpus: Sequence[str]
    daemon: asyncio.subprocess.Process | None = None
    pods: dict[str, float] = field(default_factory=dict)

    async def run_daemon(self, api: FakeApiServer) -> None:
        config, kubeconfig = self.root / "config.yaml", self.root / "kubeconfig"
        config.write_text(yaml.safe_dump(self._config()))
        kubeconfig.write_text(yaml.safe_dump(_kubeconfig(api.url)))
        with (self.root / "log").open("ab") as log:
            self.daemon = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "numaplace", "run", "--config", str(config),
                stdout=log, stderr=log,
                env={**os.environ, "NODE_NAME": self.name, "KUBECONFIG": str(kubeconfig)},
            )  # fmt: skip
        await self.kubelet.wait_registered(GPU, timeout_seconds=60)

    async def stop_daemon(self) -> None:
        if self.daemon and self.daemon.returncode is None:
            self.daemon.terminate()
            await self.daemon.wait()

    def _config(self) -> dict[str, Any]:
        roots = self.host.roots
        return {
            "strategy": STRATEGIES[self.name],
            "pollInterval": "2s",
            "rescanInterval": "2s",
            "resources": [
                {"name": VF, "sriov": {"drivers": ["iavf"]}},
                {"name": GPU, "gpu": {"vendor": "nvidia"}},
            ],
            "kubelet": {
                "devicePluginDirectory": str(self.kubelet.device_plugins_dir),
                "podResourcesSocket": str(self.kubelet.pod_resources_socket),
                "configFile": str(self.root / "kubelet.yaml") if self.name in POLICIES else None,
            },
            "host": {"sysfs": str(roots.sysfs), "devfs": str(roots.devfs), "procfs": str(roots.procfs)},
            "http": {"address": f"127.0.0.1:{self.port}"},
            **({} if self.name not in POLICIES else self._steering()),
        }

    def _steering(self) -> dict[str, Any]:
        file = self.root / "kubelet.yaml"
        file.write_text(
            yaml.safe_dump(
                {
                    "kind": "KubeletConfiguration",
                    "topologyManagerPolicy": POLICIES[self.name].value,
                    "cpuManagerPolicy": "static",
                    "memoryManagerPolicy": "Static",
                    "reservedSystemCPUs": ",".join(map(str, sorted(RESERVED))),
                }
            )
        )
        os.utime(file, (0, 0))
        return {
            "steering": {"requests": [{GPU: 1, "cpu": POD_CPUS, "memory": f"{POD_MEMORY_BYTES >> 30}Gi"}]}
        }


def _kubeconfig(url: str) -> dict[str, Any]:
    return {
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": url}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def build(name: str, folder: Path, number: int) -> SimulatedNode:
    root = folder / name
    root.mkdir()
    host = FakeHost(root / "host")
    gpus: list[str] = []
    for node in NUMA:
        cpus = f"{node * CPUS}-{(node + 1) * CPUS - 1}"
        distances = (10, 21) if node == 0 else (21, 10)
        host.numa_node(node, cpus=cpus, memory_bytes=MEMORY_BYTES, distances=distances)
        host.pf(f"0000:{node + 1}b:00.0", f"ens{node}", numa=node, vfs=VFS, vf_offset=0x80)
        for slot in range(GPUS):
            gpus.append(f"0000:{node + 5}{slot}:00.0")
            host.gpu("nvidia", gpus[-1], numa=node)
    machine = EmulatedNode(
        NumaTopology(NUMA, {node: frozenset(range(node * CPUS, (node + 1) * CPUS)) for node in NUMA}),
        memory_bytes=dict.fromkeys(NUMA, MEMORY_BYTES),
        reserved_cpus=RESERVED,
        topology_policy=POLICIES.get(name),
    )
    return SimulatedNode(name, root, _free_port(), host, KubeletEmulator(root, machine, seed=number), gpus)


def prometheus(nodes: Sequence[SimulatedNode]) -> dict[str, Any]:
    """Return the configuration of the Prometheus: jobs and labels as the chart's PodMonitor gives them."""
    targets = [{"targets": [f"127.0.0.1:{one.port}"], "labels": {"node": one.name}} for one in nodes]
    return {
        "global": {"scrape_interval": "3s", "evaluation_interval": "3s"},
        "scrape_configs": [{"job_name": JOB, "static_configs": targets}],
    }


class Load:
    """Pods that are created and deleted on one node."""

    def __init__(self, node: SimulatedNode, api: FakeApiServer, seed: int) -> None:
        self._node = node
        self._api = api
        self._dice = random.Random(seed)  # noqa: S311 - the same fleet each time
        self._number = 0

    def _request(self) -> Mapping[ResourceName, int]:
        if self._node.name in POLICIES:
            return {GPU: 1}
        if self._node.name.startswith("net"):
            return {VF: self._dice.choice((1, 1, 2, 4))} | ({GPU: 1} if self._dice.random() < 0.3 else {})
        vfs = {VF: 1} if self._dice.random() < 0.4 else {}
        return {GPU: self._dice.choice((1, 1, 1, 2, 2, 4)), **vfs}

    async def step(self) -> None:
        node, now = self._node, time.monotonic()
        for name in [name for name, end in node.pods.items() if end < now]:
            await node.kubelet.remove(("default", name))
            self._api.delete("default", name)
            del node.pods[name]
        self._number += 1
        name = f"{node.name}-job-{self._number}"
        devices = self._request()
        container = ContainerSpec("main", devices, cpus=POD_CPUS, memory_bytes=POD_MEMORY_BYTES)
        self._api.put(_pod(name, node.name, container))
        admitted = await node.kubelet.admit(PodSpec("default", name, (container,)))
        if admitted.admitted:
            node.pods[name] = now + self._dice.uniform(*LIFE_SECONDS[node.name in POLICIES])
        else:
            self._api.delete("default", name)


def _pod(name: str, node: str, container: ContainerSpec) -> dict[str, Any]:
    amounts = {str(one): str(amount) for one, amount in container.devices.items()}
    limits = {**amounts, "cpu": str(container.cpus), "memory": str(container.memory_bytes)}
    containers = [{"name": container.name, "image": "x", "resources": {"limits": limits, "requests": limits}}]
    return {
        "metadata": {"namespace": "default", "name": name, "uid": f"uid-{name}"},
        "spec": {"nodeName": node, "containers": containers},
        "status": {"phase": "Running", "qosClass": "Guaranteed"},
    }


async def traffic(load: Load, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - the same fleet each time
    while True:
        await asyncio.sleep(dice.uniform(2, 8))
        with suppress(TimeoutError):
            await asyncio.wait_for(load.step(), 20)


async def troubles(nodes: Mapping[str, SimulatedNode], api: FakeApiServer, seconds: float) -> None:
    """Cause faults, each for a while; the last ones stay."""

    async def podresources_away() -> None:
        nodes["gpu-03"].kubelet.faults = Faults(errors={"List": "UNAVAILABLE"})
        await asyncio.sleep(seconds / 8)
        nodes["gpu-03"].kubelet.faults = NO_FAULTS

    async def api_server_away() -> None:
        api.refuse["watch"] = api.refuse["list"] = 503
        api.hang_up()
        await asyncio.sleep(seconds / 10)
        api.refuse.clear()

    async def daemon_replaced() -> None:
        await nodes["net-02"].stop_daemon()
        await asyncio.sleep(8)
        await nodes["net-02"].run_daemon(api)

    async def gpu_lost() -> None:
        nodes["gpu-04"].host.remove(nodes["gpu-04"].gpus[5])

    happenings: Sequence[Callable[[], Awaitable[None]]] = (
        podresources_away, api_server_away, daemon_replaced, gpu_lost,
    )  # fmt: skip
    for happening in happenings:
        await asyncio.sleep(seconds / 7)
        await happening()
    await asyncio.sleep(seconds)


@asynccontextmanager
async def running(node: SimulatedNode, api: FakeApiServer) -> AsyncIterator[None]:
    """Run a node's kubelet and daemon."""
    async with node.kubelet:
        await node.run_daemon(api)
        try:
            yield
        finally:
            await node.stop_daemon()


async def main(folder: Path, minutes: float) -> None:
    nodes = {name: build(name, folder, number) for number, name in enumerate(STRATEGIES)}
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(prometheus(list(nodes.values()))))
    api = FakeApiServer()
    async with AsyncExitStack() as stack:
        stack.enter_context(api.serving())
        for node in nodes.values():
            await stack.enter_async_context(running(node, api))
        with suppress(TimeoutError):
            async with asyncio.timeout(minutes * 60), asyncio.TaskGroup() as group:
                for number, node in enumerate(nodes.values()):
                    group.create_task(traffic(Load(node, api, number), number))
                group.create_task(troubles(nodes, api, minutes * 60))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), float(sys.argv[2])))
