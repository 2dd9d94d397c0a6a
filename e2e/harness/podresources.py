"""The PodResources answers of a kubelet, read without any of numaplace's own conversions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import grpc
from numaplace.kubelet.api import podresources_pb2 as pb
from numaplace.kubelet.api import podresources_pb2_grpc as rpc

CHANNEL_OPTIONS = (("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1))


@dataclass(frozen=True, slots=True)
class Held:
    """What one container holds: device ids per resource, exclusive CPUs."""

    devices: Mapping[str, frozenset[str]]
    cpus: frozenset[int]


def list_pods(socket: Path) -> dict[str, dict[str, Held]]:
    """Return pod name -> container name -> what it holds; ``grpc.RpcError`` if the kubelet is away."""
    # A channel for each call: one that is kept would wait out its back-off after a kubelet restart.
    with grpc.insecure_channel(f"unix:{socket}", options=CHANNEL_OPTIONS) as channel:
        reply = rpc.PodResourcesListerStub(channel).List(pb.ListPodResourcesRequest(), timeout=5)
    return {pod.name: {one.name: _held(one) for one in pod.containers} for pod in reply.pod_resources}


def _held(container: pb.ContainerResources) -> Held:
    devices: dict[str, set[str]] = {}
    for block in container.devices:
        devices.setdefault(block.resource_name, set()).update(block.device_ids)
    return Held(
        devices={resource: frozenset(ids) for resource, ids in devices.items()},
        cpus=frozenset(container.cpu_ids),
    )


def allocatable_devices(socket: Path) -> dict[str, frozenset[str]]:
    """Return the healthy device ids that the kubelet knows, per resource."""
    with grpc.insecure_channel(f"unix:{socket}", options=CHANNEL_OPTIONS) as channel:
        stub = rpc.PodResourcesListerStub(channel)
        reply = stub.GetAllocatableResources(pb.AllocatableResourcesRequest(), timeout=5)
    devices: dict[str, set[str]] = {}
    for block in reply.devices:
        devices.setdefault(block.resource_name, set()).update(block.device_ids)
    return {resource: frozenset(ids) for resource, ids in devices.items()}
