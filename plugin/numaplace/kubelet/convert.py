"""PodResources messages (podresources/v1) to the values of ``numaplace.model.podresources``.

The kubelet answers List with every pod of the node each time, and nearly all of them are as before. So
``ListDecoder`` compares bytes: the same reply gives the same tuple, the same pod inside another reply gives
the same ``PodUse``, and only what changed is parsed. Its plain counterpart is ``pods_of``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from numaplace.errors import PeerError
from numaplace.kubelet.api import podresources_pb2 as pb
from numaplace.model.mask import MAX_NODE
from numaplace.model.names import DeviceId, ResourceName
from numaplace.model.podresources import Allocatable, ContainerUse, DeviceBlock, MemoryBlock, PodUse

_POD_RESOURCES_TAG = 0x0A
"""Field 1 (``pod_resources``), length-delimited."""

_MAX_LENGTH_SHIFT = 28

_M = TypeVar("_M", bound=Message)


class ListDecoder:
    """Decodes the raw bytes of List replies, remembering the previous reply only."""

    def __init__(self) -> None:
        self._raw = b""
        self._pods: tuple[PodUse, ...] = ()
        self._by_slice: dict[bytes, PodUse] = {}

    def decode(self, raw: bytes) -> tuple[PodUse, ...]:
        """Return the pods in the reply's order; ``PeerError`` (code ``DECODE``) for nonsense."""
        if raw == self._raw:
            return self._pods
        slices = split_pods(raw)
        if slices is None:
            pods, by_slice = pods_of(_parse(pb.ListPodResourcesResponse(), raw)), {}
        else:
            by_slice = {one: self._by_slice.get(one) or _pod_of_slice(one) for one in slices}
            pods = tuple(by_slice[one] for one in slices)
        self._raw, self._pods, self._by_slice = raw, pods, by_slice
        return pods


def split_pods(raw: bytes) -> list[bytes] | None:
    """Return the bytes of each pod of a List reply without parsing them.

    ``None`` when the top level holds anything but whole ``pod_resources`` fields: an unknown field of a newer
    kubelet, a length in a longer form than needed, a cut message. The full parser decides then.
    """
    slices = []
    position, end = 0, len(raw)
    while position < end:
        if raw[position] != _POD_RESOURCES_TAG:
            return None
        position += 1
        length = shift = 0
        while True:
            if position >= end or shift > _MAX_LENGTH_SHIFT:
                return None
            byte = raw[position]
            position += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if (shift > 7 and byte == 0) or position + length > end:
            return None
        slices.append(raw[position : position + length])
        position += length
    return slices


def decode_allocatable(raw: bytes) -> Allocatable:
    """Return a GetAllocatableResources reply as a value; ``PeerError`` (code ``DECODE``) for nonsense."""
    return allocatable_of(_parse(pb.AllocatableResourcesResponse(), raw))


def decode_pod(raw: bytes) -> PodUse | None:
    """Return a Get reply as a value, ``None`` without a pod; ``PeerError`` (code ``DECODE``) for nonsense."""
    message = _parse(pb.GetPodResourcesResponse(), raw)
    return pod_of(message.pod_resources) if message.HasField("pod_resources") else None


def pods_of(message: pb.ListPodResourcesResponse) -> tuple[PodUse, ...]:
    """Return the pods of a List reply, all converted anew."""
    return tuple(pod_of(pod) for pod in message.pod_resources)


def allocatable_of(message: pb.AllocatableResourcesResponse) -> Allocatable:
    """Return the node's capacity as a value."""
    return Allocatable(
        devices=_devices(message.devices), cpus=frozenset(message.cpu_ids), memory=_memory(message.memory)
    )


def pod_of(message: pb.PodResources) -> PodUse:
    """Return one pod as a value."""
    return PodUse(
        namespace=message.namespace,
        name=message.name,
        containers=tuple(_container(container) for container in message.containers),
        cpus=frozenset(message.cpu_ids),
        memory=_memory(message.memory),
    )


def _container(message: pb.ContainerResources) -> ContainerUse:
    return ContainerUse(
        name=message.name,
        devices=_devices(message.devices),
        cpus=frozenset(message.cpu_ids),
        memory=_memory(message.memory),
        claims=tuple(f"{one.claim_namespace}/{one.claim_name}" for one in message.dynamic_resources),
    )


def _devices(messages: Iterable[pb.ContainerDevices]) -> tuple[DeviceBlock, ...]:
    """Return the blocks as they come: the kubelet sends one block per group of NUMA nodes."""
    return tuple(
        DeviceBlock(
            resource=ResourceName(one.resource_name),
            ids=tuple(DeviceId(device) for device in one.device_ids),
            nodes=_nodes(one),
        )
        for one in messages
    )


def _memory(messages: Iterable[pb.ContainerMemory]) -> tuple[MemoryBlock, ...]:
    return tuple(
        MemoryBlock(type=ResourceName(one.memory_type), size_bytes=one.size, nodes=_nodes(one))
        for one in messages
    )


def _nodes(message: pb.ContainerDevices | pb.ContainerMemory) -> tuple[int, ...]:
    """Return the NUMA nodes, ascending. Those that no kubelet mask can hold (-1 above all) say nothing."""
    return tuple(sorted({node.ID for node in message.topology.nodes if 0 <= node.ID <= MAX_NODE}))


def _pod_of_slice(raw: bytes) -> PodUse:
    return pod_of(_parse(pb.PodResources(), raw))


def _parse(message: _M, raw: bytes) -> _M:
    try:
        message.ParseFromString(raw)
    except DecodeError as error:
        raise PeerError(
            f"the kubelet's reply of {len(raw)} bytes is not a {type(message).__name__}: {error}",
            code="DECODE",
        ) from error
    return message
