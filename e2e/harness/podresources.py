"""The PodResources answers of a kubelet, read without any of numaplace's own conversions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import grpc
from numaplace.kubelet.api import podresources_pb2 as pb
from numaplace.kubelet.api import podresources_pb2_grpc as rpc

from harness.waiters import until

T = TypeVar("T")

CHANNEL_OPTIONS = (("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1))


@dataclass(frozen=True, slots=True)
class Held:
    """What one container holds: device ids per resource, exclusive CPUs, NUMA nodes of memory per type."""

    devices: Mapping[str, frozenset[str]]
    cpus: frozenset[int]
    memory: Mapping[str, frozenset[int]]


def list_pods(socket: Path | str) -> dict[str, dict[str, Held]]:
    """Return pod name -> container name -> what it holds; ``grpc.RpcError`` if the kubelet is away.

    ``socket``: a path, or gRPC's name of an endpoint.
    """
    reply = _ask(socket, lambda stub: stub.List(pb.ListPodResourcesRequest(), timeout=5))
    return {pod.name: {one.name: _held(one) for one in pod.containers} for pod in reply.pod_resources}


def allocatable_devices(socket: Path | str) -> dict[str, frozenset[str]]:
    """Return the healthy device ids that the kubelet knows, per resource."""
    request = pb.AllocatableResourcesRequest()
    reply = _ask(socket, lambda stub: stub.GetAllocatableResources(request, timeout=5))
    return _by_resource(reply.devices)


def allocatable_numa_nodes(socket: Path | str) -> dict[str, dict[str, tuple[int, ...]]]:
    """Return the NUMA nodes of each healthy device that the kubelet knows, per resource."""
    request = pb.AllocatableResourcesRequest()
    reply = _ask(socket, lambda stub: stub.GetAllocatableResources(request, timeout=5))
    found: dict[str, dict[str, tuple[int, ...]]] = {}
    for block in reply.devices:
        nodes = tuple(sorted(node.ID for node in block.topology.nodes))
        found.setdefault(block.resource_name, {}).update(dict.fromkeys(block.device_ids, nodes))
    return found


def shown_devices(socket: Path) -> dict[str, dict[str, frozenset[int]]]:
    """Return resource -> healthy device id -> the NUMA nodes that its plugin has told the kubelet."""
    request = pb.AllocatableResourcesRequest()
    reply = _ask(socket, lambda stub: stub.GetAllocatableResources(request, timeout=5))
    shown: dict[str, dict[str, frozenset[int]]] = {}
    for block in reply.devices:
        nodes = frozenset(node.ID for node in block.topology.nodes)
        shown.setdefault(block.resource_name, {}).update(dict.fromkeys(block.device_ids, nodes))
    return shown


def _ask(socket: Path | str, call: Callable[[rpc.PodResourcesListerStub], T]) -> T:
    target = socket if isinstance(socket, str) else f"unix:{socket}"
    # A channel for each call: one that is kept would wait out its back-off after a kubelet restart.
    with grpc.insecure_channel(target, options=CHANNEL_OPTIONS) as channel:
        stub = rpc.PodResourcesListerStub(channel)
        return until(lambda: _unless_limited(lambda: call(stub)), "the kubelet's rate limit to let us in")


def _unless_limited(call: Callable[[], T]) -> T | None:
    # All clients of the node share 100 calls per second: what tests ask, the daemon cannot.
    try:
        return call()
    except grpc.RpcError as error:
        if error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED:
            return None
        raise


def _held(container: pb.ContainerResources) -> Held:
    memory: dict[str, set[int]] = {}
    for block in container.memory:
        memory.setdefault(block.memory_type, set()).update(node.ID for node in block.topology.nodes)
    return Held(
        devices=_by_resource(container.devices),
        cpus=frozenset(container.cpu_ids),
        memory={kind: frozenset(nodes) for kind, nodes in memory.items()},
    )


def _by_resource(blocks: Iterable[pb.ContainerDevices]) -> dict[str, frozenset[str]]:
    devices: dict[str, set[str]] = {}
    for block in blocks:
        devices.setdefault(block.resource_name, set()).update(block.device_ids)
    return {resource: frozenset(ids) for resource, ids in devices.items()}
