"""A Kubernetes node under churn: what its kubelet would list and offer.

Pods are admitted one at a time and the oldest one leaves when the node is full. So between two decisions one
pod goes, the pod of the last decision shows its devices, and one without devices appears. The replies are
ordered as a kubelet orders them, by Go's maps: the pods at random, the device blocks and CPU ids of a
container from a random start (Go walks a map of up to eight entries that way). One block per device.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

from numaplace.kubelet.api import podresources_pb2 as pb

RESOURCE = "example.com/vf"
GIB = 1 << 30
CPUS_PER_NODE = 64
CPUS_PER_POD = 2

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Request:
    """NUMA nodes, devices on each, pods in the List, devices per pod."""

    nodes: int
    devices_per_node: int
    pods: int
    devices_per_pod: int

    def __str__(self) -> str:
        return f"{self.nodes} x {self.devices_per_node} devices, {self.pods} pods"

    @property
    def devices(self) -> dict[str, int]:
        """The NUMA node of each device id."""
        return {
            f"vf-{node}-{index}": node for node in range(self.nodes) for index in range(self.devices_per_node)
        }


@dataclass(slots=True)
class _Pod:
    name: str
    devices: tuple[str, ...] = ()
    cpus: tuple[int, ...] = ()


class Machine:
    """The node. ``step`` admits the next pod; ``give`` ends its admission with devices."""

    def __init__(self, request: Request, *, seed: int = 1) -> None:
        self.request = request
        self._random = random.Random(seed)
        self._numa = request.devices
        self._free = dict.fromkeys(self._numa)
        self._free_cpus = list(range(request.nodes * CPUS_PER_NODE))
        self._names: Iterator[int] = count()
        self._pods: deque[_Pod] = deque()
        while len(self._pods) < request.pods:
            self.step()
            self.give(self._random.sample(sorted(self._free), request.devices_per_pod))

    def step(self) -> None:
        """Let the oldest pod go if the node is full, and the next one appear without devices."""
        if len(self._pods) >= self.request.pods:
            gone = self._pods.popleft()
            self._free |= dict.fromkeys(gone.devices)
            self._free_cpus += gone.cpus
        number = next(self._names)
        self._pods.append(_Pod(f"workload-6d4cf56db6-{number:05d}"))

    def offered(self) -> list[str]:
        return self._random.sample(list(self._free), len(self._free))

    def give(self, ids: Sequence[str]) -> None:
        """Give the pod under admission these devices, exclusive CPUs and memory."""
        pod = self._pods[-1]
        pod.devices = tuple(ids)
        pod.cpus = tuple(self._free_cpus[:CPUS_PER_POD])
        del self._free_cpus[:CPUS_PER_POD]
        for device in ids:
            del self._free[device]

    def listing(self) -> bytes:
        pods = self._random.sample(list(self._pods), len(self._pods))
        return pb.ListPodResourcesResponse(pod_resources=map(self._message, pods)).SerializeToString()

    def allocatable(self) -> bytes:
        return pb.AllocatableResourcesResponse(
            devices=[self._block(device) for device in self._numa],
            cpu_ids=range(self.request.nodes * CPUS_PER_NODE),
            memory=[
                block for node in range(self.request.nodes) for block in _memory(node, memory=128, huge=32)
            ],
        ).SerializeToString()

    def _message(self, pod: _Pod) -> pb.PodResources:
        container = pb.ContainerResources(name="main")
        if pod.devices:
            container.devices.extend(self._block(device) for device in self._rotated(pod.devices))
            container.cpu_ids.extend(self._rotated(pod.cpus))
            container.memory.extend(_memory(self._numa[pod.devices[0]], memory=2, huge=1))
        return pb.PodResources(namespace="workloads", name=pod.name, containers=[container])

    def _block(self, device: str) -> pb.ContainerDevices:
        return pb.ContainerDevices(
            resource_name=RESOURCE, device_ids=[device], topology=_topology(self._numa[device])
        )

    def _rotated(self, items: Sequence[_T]) -> list[_T]:
        start = self._random.randrange(len(items))
        return [*items[start:], *items[:start]]


def _topology(node: int) -> pb.TopologyInfo:
    return pb.TopologyInfo(nodes=[pb.NUMANode(ID=node)])


def _memory(node: int, *, memory: int, huge: int) -> list[pb.ContainerMemory]:
    """Return the blocks of ``memory`` GiB and of ``huge`` pages of 1 GiB."""
    sizes = {"memory": memory, "hugepages-1Gi": huge}
    return [
        pb.ContainerMemory(memory_type=kind, size=gib * GIB, topology=_topology(node))
        for kind, gib in sizes.items()
    ]
