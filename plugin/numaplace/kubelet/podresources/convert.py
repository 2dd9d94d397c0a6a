"""PodResources messages (podresources/v1) to the values of ``numaplace.model.podresources``.

The kubelet answers List with every pod of the node each time, and nearly all of them are unchanged. So
``ListDecoder`` compares bytes: the same reply gives the same tuple, the same pod inside another reply gives
the same ``PodUse``, and only what changed is parsed. Its plain counterpart is ``pods_of``.

The bytes of an unchanged pod are not always the same: the kubelet walks Go maps, whose order varies, to list
pods, a container's devices (one block each) and its CPUs (``cm/container_manager.go``,
containerDevicesFromResourceDeviceInstances and GetCPUs). So blocks are put in order, and several byte forms
of a pod are remembered: Go walks a map of up to eight entries in as many orders.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar, cast

from google.protobuf.message import DecodeError, Message

from numaplace.errors import PeerError
from numaplace.kubelet.api import podresources_pb2 as pb
from numaplace.model.mask import MAX_NODE
from numaplace.model.names import DeviceId, ResourceName
from numaplace.model.podresources import Allocatable, ContainerUse, DeviceBlock, MemoryBlock, PodUse

MAX_FORMS = 32
"""Byte forms remembered of one pod: eight orders of CPUs times two of devices, twice."""

_POD_RESOURCES_TAG = 0x0A
"""Field 1 (``pod_resources``), length-delimited."""

_MAX_LENGTH_SHIFT = 28

MAX_CPU = 0xFFFF
"""Higher than any CPU that Linux can be built for."""

_M = TypeVar("_M", bound=Message)


@dataclass(slots=True)
class _Known:
    """A pod of the previous reply, and the byte forms that it was seen in."""

    pod: PodUse
    forms: list[bytes] = field(default_factory=list)


class ListDecoder:
    """Decodes the raw bytes of List replies, remembering the pods of the previous reply only."""

    def __init__(self) -> None:
        self._raw = b""
        self._pods: tuple[PodUse, ...] = ()
        self._by_form: dict[bytes, PodUse] = {}
        self._known: dict[int, _Known] = {}
        self._by_value: dict[PodUse, PodUse] = {}

    def decode(self, raw: bytes) -> tuple[PodUse, ...]:
        """Return the pods in the reply's order; ``PeerError`` (code ``DECODE``) if it is invalid."""
        if raw == self._raw:
            return self._pods
        slices = split_pods(raw)
        if slices is None:
            pods = pods_of(_parse(pb.ListPodResourcesResponse(), raw))
        else:
            found = map(self._by_form.get, slices)
            pods = tuple([pod or self._learn(form) for pod, form in zip(found, slices, strict=True)])
        self._forget_all_but(pods)
        self._raw, self._pods = raw, pods
        return pods

    def _learn(self, form: bytes) -> PodUse:
        pod = pod_of(_parse(pb.PodResources(), form))
        pod = self._by_value.setdefault(pod, pod)
        known = self._known.setdefault(id(pod), _Known(pod))
        if len(known.forms) >= MAX_FORMS:
            del self._by_form[known.forms.pop(0)]
        known.forms.append(form)
        self._by_form[form] = known.pod
        return known.pod

    def _forget_all_but(self, pods: tuple[PodUse, ...]) -> None:
        for identity in self._known.keys() - set(map(id, pods)):
            gone = self._known.pop(identity)
            del self._by_value[gone.pod]
            for form in gone.forms:
                del self._by_form[form]


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
        found = _length_at(raw, position + 1)
        if found is None:
            return None
        length, start = found
        position = start + length
        if position > end:
            return None
        slices.append(raw[start:position])
    return slices


def _length_at(raw: bytes, position: int) -> tuple[int, int] | None:
    """Return the varint at the position and where it ends; ``None`` if it is cut, too long or padded."""
    length = shift = 0
    while position < len(raw) and shift <= _MAX_LENGTH_SHIFT:
        byte = raw[position]
        position += 1
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return None if shift and not byte else (length, position)
        shift += 7
    return None


def decode_allocatable(raw: bytes) -> Allocatable:
    """Return a GetAllocatableResources reply as a value; ``PeerError`` (code ``DECODE``) if it is invalid."""
    return allocatable_of(_parse(pb.AllocatableResourcesResponse(), raw))


def decode_pod(raw: bytes) -> PodUse | None:
    """Return a Get reply's pod, if it has one; ``PeerError`` (code ``DECODE``) if it is invalid."""
    message = _parse(pb.GetPodResourcesResponse(), raw)
    return pod_of(message.pod_resources) if message.HasField("pod_resources") else None


def pods_of(message: pb.ListPodResourcesResponse) -> tuple[PodUse, ...]:
    return tuple(pod_of(pod) for pod in message.pod_resources)


def allocatable_of(message: pb.AllocatableResourcesResponse) -> Allocatable:
    return Allocatable(devices=_devices(message.devices), cpus=_cpus(message), memory=_memory(message.memory))


def pod_of(message: pb.PodResources) -> PodUse:
    return PodUse(
        namespace=message.namespace,
        name=message.name,
        containers=tuple(map(_container, message.containers)),
        cpus=_cpus(message),
        memory=_memory(message.memory),
    )


def _container(message: pb.ContainerResources) -> ContainerUse:
    return ContainerUse(
        name=message.name,
        devices=_devices(message.devices),
        cpus=_cpus(message),
        memory=_memory(message.memory),
        claims=tuple([f"{one.claim_namespace}/{one.claim_name}" for one in message.dynamic_resources]),
    )


def _devices(messages: Iterable[pb.ContainerDevices]) -> tuple[DeviceBlock, ...]:
    """Return the blocks in an order of their own, for the kubelet's varies."""
    blocks = [
        DeviceBlock(
            cast(ResourceName, one.resource_name),
            cast(tuple[DeviceId, ...], tuple(one.device_ids)),
            _nodes(one),
        )
        for one in messages
    ]
    if len(blocks) > 1:
        blocks.sort(key=_block_order)
    return tuple(blocks)


def _block_order(block: DeviceBlock) -> tuple[object, ...]:
    return (block.resource, block.ids, block.nodes)


def _memory(messages: Iterable[pb.ContainerMemory]) -> tuple[MemoryBlock, ...]:
    return tuple(
        [MemoryBlock(cast(ResourceName, one.memory_type), one.size, _nodes(one)) for one in messages]
    )


def _cpus(
    message: pb.PodResources | pb.ContainerResources | pb.AllocatableResourcesResponse,
) -> frozenset[int]:
    """Return the CPUs; ``PeerError`` for ids that no CPU has: to count with them takes all memory."""
    cpus = frozenset(message.cpu_ids)
    if cpus and (min(cpus) < 0 or max(cpus) > MAX_CPU):
        raise PeerError(f"the kubelet's reply has CPUs {min(cpus)} to {max(cpus)}", code="DECODE")
    return cpus


def _nodes(message: pb.ContainerDevices | pb.ContainerMemory) -> tuple[int, ...]:
    """Return the NUMA nodes, ascending. Those that no kubelet mask can hold (-1 above all) say nothing."""
    nodes = message.topology.nodes
    if len(nodes) == 1:
        node = nodes[0].ID
        return (node,) if 0 <= node <= MAX_NODE else ()
    return tuple(sorted({node.ID for node in nodes if 0 <= node.ID <= MAX_NODE}))


def _parse(message: _M, raw: bytes) -> _M:
    try:
        message.ParseFromString(raw)
    except DecodeError as error:
        raise PeerError(
            f"the kubelet's reply of {len(raw)} bytes is not a {type(message).__name__}: {error}",
            code="DECODE",
        ) from error
    return message
