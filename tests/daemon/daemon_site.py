"""A fake host with two NUMA nodes, an emulated kubelet, and the daemon's parts run against them."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from host_model import HostModel
from in_memory import short_folder
from msgspec.structs import replace
from numaplace.config.load import Loaded, load_config
from numaplace.config.schema import Config
from numaplace.daemon.node import Node
from numaplace.daemon.node_state import NodeState
from numaplace.daemon.resources.published import PublishedTopology
from numaplace.daemon.runtime.logs import EventLog
from numaplace.daemon.steering.controller import SteeringController
from numaplace.daemon.steering.publisher import Publisher
from numaplace.daemon.steering.times import Times
from numaplace.devices.fake import FakeHost
from numaplace.kubelet.api import deviceplugin_pb2 as pb
from numaplace.kubelet.api.deviceplugin_pb2_grpc import DevicePluginStub
from numaplace.kubelet.channel import open_channel
from numaplace.kubelet.emulator import Admission, ContainerSpec, EmulatedNode, KubeletEmulator, PodSpec
from numaplace.kubelet.podresources.poller import Poller
from numaplace.metrics.metrics import Metrics
from numaplace.model.names import ResourceName
from numaplace.model.topology import NumaTopology
from prometheus_client.parser import text_string_to_metric_families

VF = ResourceName("intel.com/vf")
GPU = ResourceName("nvidia.com/gpu")
NODES = (0, 1)
VFS_PER_NODE = 8
GPUS_PER_NODE = 4
SIZES = {VF: VFS_PER_NODE * 2, GPU: GPUS_PER_NODE * 2}
LIMIT_SECONDS = 60.0
SCAN_PAUSE_SECONDS = 20.0
PATIENT = Times(delivery_seconds=LIMIT_SECONDS, confirm_seconds=2 * LIMIT_SECONDS)
"""A busy machine may keep the kubelet from taking a list for a while."""

SOURCES: Mapping[ResourceName, Mapping[str, Any]] = {
    VF: {"sriov": {"drivers": ["iavf"]}},
    GPU: {"gpu": {"vendor": "nvidia"}},
}


@dataclass
class Clock:
    """Monotonic seconds for a daemon. Time in which nothing is to happen can be passed over."""

    skipped_seconds: float = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.skipped_seconds

    def skip(self, seconds: float) -> None:
        self.skipped_seconds += seconds


async def until(condition: Any, what: str = "the condition", *, limit_seconds: float = LIMIT_SECONDS) -> Any:
    """Return the first true value of the condition."""
    end = time.monotonic() + limit_seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"{what} did not come about in {limit_seconds} s"
        await asyncio.sleep(0.01)
    return value


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def http_anywhere() -> dict[str, str]:
    """The configuration of pages on a free port."""
    return {"address": f"127.0.0.1:{free_port()}"}


def pod(name: str, devices: Mapping[ResourceName, int] | None = None, **more: Any) -> PodSpec:
    """One container with these devices, unless ``containers`` are given."""
    containers = more.pop("containers", (ContainerSpec("main", devices or {}),))
    return PodSpec("default", name, containers, **more)


class RecordedLog(EventLog):
    """Keeps the events."""

    def __init__(self) -> None:
        super().__init__(logging.getLogger("numaplace.recorded"))
        self.lines: list[dict[str, Any]] = []

    def _write(self, level: int, event: str, fields: Any, exc: Any = None) -> None:
        self.lines.append(
            {"level": logging.getLevelName(level).lower(), "event": event, "exc": exc, **fields}
        )

    def events(self, name: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == name]

    @property
    def troubles(self) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["level"] in ("warning", "error")]


@dataclass
class Served:
    """A running node."""

    node: Node
    metrics: Metrics
    log: RecordedLog
    clock: Clock

    # The node's parts, for what no page, metric or log line shows or brings about.

    @property
    def poller(self) -> Poller:
        return self.node._poller

    @property
    def node_state(self) -> NodeState:
        return self.node._node_state

    @property
    def steerer(self) -> SteeringController:
        return self.node._steerer

    @property
    def exposure(self) -> Publisher:
        return self.steerer.publisher

    def service(self, resource: str) -> PublishedTopology:
        return self.node._services()[ResourceName(resource)]

    @property
    def registered(self) -> bool:
        return any(self.node.resources.registered.values())

    def knows(self, pod: str) -> bool:
        """Whether the API server has told of the pod."""
        cluster = self.node._cluster
        return cluster is not None and ("default", pod) in cluster.specs.pods

    async def page(self, path: str) -> tuple[int, str]:
        return await fetch(self.node.port, path)

    async def scrape(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        status, text = await self.page("/metrics")
        assert status == 200
        return samples(text)

    async def shows(self, value: float, name: str, **labels: str) -> None:
        """Wait until the page of metrics shows this sum."""
        end = time.monotonic() + LIMIT_SECONDS
        while (found := total(await self.scrape(), name, **labels)) != value:
            assert time.monotonic() < end, f"{name} is {found}"

    def count(self, name: str, **labels: str) -> float:
        """A counter's value without a scrape; the sum over labels that are not given."""
        lines = self.metrics.render()[0].decode().splitlines()
        found = samples("\n".join(line for line in lines if line.startswith(name)) + "\n")
        return total(found, name, **labels)

    async def rescan(self, resource: str, times: int = 2) -> None:
        """Look at the host so often, with time between that makes a change believed."""
        for _ in range(times):
            self.clock.skip(SCAN_PAUSE_SECONDS)
            await self.node.resources[ResourceName(resource)].supply.look()

    async def listed(self, times: int) -> None:
        """Wait for so many Lists from now on; the first one may have been sent before."""
        before = self.count("numaplace_podresources_calls_total", method="List", code="OK")
        await until(
            lambda: (
                self.count("numaplace_podresources_calls_total", method="List", code="OK") >= before + times
            ),
            f"{times} Lists",
        )


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def total(found: Mapping[tuple[str, frozenset[tuple[str, str]]], float], name: str, **labels: str) -> float:
    wanted = set(labels.items())
    return sum(value for (key, have), value in found.items() if key == name and wanted <= have)


async def fetch(port: int | None, path: str) -> tuple[int, str]:
    def get() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    return await asyncio.to_thread(get)


@dataclass
class Site:
    """The host and the kubelet. ``truth`` holds the NUMA node of each device id.

    ``poll_seconds``: a shorter poll interval than may be configured.
    """

    root: Path
    host: FakeHost
    kubelet: KubeletEmulator
    truth: dict[str, int] = field(default_factory=dict)
    poll_seconds: float | None = None

    def document(self, **changes: Any) -> dict[str, Any]:
        return {
            "strategy": "least-allocated",
            "deadline": "10s",
            "resources": [{"name": name, **source} for name, source in SOURCES.items()],
            "kubelet": {
                "devicePluginDirectory": str(self.kubelet.device_plugins_dir),
                "podResourcesSocket": str(self.kubelet.pod_resources_socket),
            },
            "host": {
                "sysfs": str(self.host.roots.sysfs),
                "devfs": str(self.host.roots.devfs),
                "procfs": str(self.host.roots.procfs),
            },
            "http": {"address": "off"},
            **changes,
        }

    def kubelet_file(self, name: str = "kubelet.yaml", **keys: Any) -> Path:
        """Write the kubelet's own configuration, as from before its start (kubelet.configFile)."""
        file = self.write({"kind": "KubeletConfiguration", **keys}, name)
        os.utime(file, (0, 0))
        return file

    def write(self, document: Mapping[str, Any], name: str = "config.yaml") -> Path:
        file = self.root / name
        file.write_text(yaml.safe_dump(json.loads(json.dumps(document))))
        return file

    def load(self, **changes: Any) -> Loaded:
        return load_config(self.write(self.document(**changes)), env={}, flags={})

    def config(self, **changes: Any) -> Config:
        config = self.load(**changes).config
        if self.poll_seconds is None or "pollInterval" in changes:
            return config
        return replace(config, poll_interval_seconds=self.poll_seconds)

    @asynccontextmanager
    async def serving(
        self,
        *,
        wait: bool = True,
        env: Mapping[str, str] | None = None,
        times: Times = PATIENT,
        **changes: Any,
    ) -> AsyncIterator[Served]:
        """Run a node with the configuration, and wait until all its devices are at the kubelet.

        The kubelet follows a plugin already while it still answers Register, so the node may learn it later.
        """
        if env:
            # A tenth of the deadline is waited for a pod that the API server does not know.
            changes = {"deadline": "2s", **changes}
        config = self.config(**changes)
        log, clock = RecordedLog(), Clock()
        metrics = Metrics(version="test", clock=clock)
        node = Node(config, metrics=metrics, log=log, clock=clock, env=env, times=times)
        async with node.running():
            if wait:
                await self.registered(*(resource.name for resource in config.resources))
                await until(lambda: all(node.resources.registered.values()))
            yield Served(node, metrics, log, clock)

    async def registered(self, *resources: ResourceName) -> None:
        for name in resources or tuple(SIZES):
            await self.kubelet.wait_registered(name, count=SIZES.get(name), timeout_seconds=LIMIT_SECONDS)

    async def admit(self, name: str, devices: Mapping[ResourceName, int], **more: Any) -> Admission:
        admission = await self.kubelet.admit(pod(name, devices), **more)
        assert admission.admitted, admission.message
        return admission

    async def nodes(self, name: str, devices: Mapping[ResourceName, int], **more: Any) -> set[int]:
        """Admit a pod and return the NUMA nodes that it landed on."""
        return self.nodes_of(await self.admit(name, devices, **more))

    def nodes_of(self, admission: Admission, container: str = "main") -> set[int]:
        held = admission.containers[container]
        return {self.truth[one] for ids in held.values() for one in ids}

    def spread(self, admissions: list[Admission], resource: ResourceName) -> Counter[int]:
        """Devices per NUMA node."""
        return Counter(
            self.truth[one]
            for admission in admissions
            for held in admission.containers.values()
            for one in held.get(resource, ())
        )

    @asynccontextmanager
    async def plugin(self, resource: ResourceName) -> AsyncIterator[Any]:
        """A client of the daemon's socket, beside the kubelet's."""
        endpoint = next(one for one in self.kubelet.endpoints if one.resource == resource)
        channel = open_channel(endpoint.socket_path)
        try:
            yield DevicePluginStub(channel)
        finally:
            await channel.close()


async def preferred(stub: Any, available: Any, must: Any = (), *, size: int) -> list[str]:
    reply = await stub.GetPreferredAllocation(
        pb.PreferredAllocationRequest(
            container_requests=[
                pb.ContainerPreferredAllocationRequest(
                    available_deviceIDs=list(available),
                    must_include_deviceIDs=list(must),
                    allocation_size=size,
                )
            ]
        ),
        timeout=LIMIT_SECONDS,
    )
    return list(reply.container_responses[0].deviceIDs)


MACHINE = EmulatedNode(
    NumaTopology(nodes=NODES, cpus={0: frozenset(range(8)), 1: frozenset(range(8, 16))}),
    memory_bytes=dict.fromkeys(NODES, 32 << 30),
)


def build_site(root: Path, *, machine: EmulatedNode = MACHINE, **emulator: Any) -> Site:
    model, truth = usual_host()
    host = model.written_to(root / "host")
    return Site(root, host, KubeletEmulator(root, machine, seed=5, **emulator), dict(truth))


@cache
def usual_host() -> tuple[HostModel, Mapping[str, int]]:
    """The host of a site, and the NUMA node of each device id."""
    with short_folder() as root:
        host = FakeHost(root)
        truth = {}
        for node in NODES:
            distances = (10, 21) if node == 0 else (21, 10)
            cpus = f"{node * 8}-{node * 8 + 7}"
            host.numa_node(node, cpus=cpus, memory_bytes=32 << 30, distances=distances)
            address = f"0000:{node + 1}b:00.0"
            vfs = host.pf(address, f"ens{node}", numa=node, vfs=VFS_PER_NODE, vf_offset=0x80)
            truth |= dict.fromkeys(vfs, node)
            for slot in range(GPUS_PER_NODE):
                truth[host.gpu("nvidia", f"0000:{node + 5}{slot}:00.0", numa=node)] = node
        return HostModel.of(host), truth
