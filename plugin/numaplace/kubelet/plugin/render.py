"""Values of ``numaplace.model.device`` to device-plugin messages (deviceplugin/v1beta1)."""

from __future__ import annotations

import json
from collections.abc import Iterable

from numaplace.kubelet.api import deviceplugin_pb2 as pb
from numaplace.model.device import ContainerEdits, Device

VERSION = "v1beta1"
HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"
LIST_LIMIT_BYTES = 4 * 1024 * 1024
"""The kubelet receives with gRPC's default limit; a larger list ends the stream for good."""

_DEVICE_FRAME_BYTES = 6
"""Tag and length of one device inside the list, at most."""


def plugin_options() -> pb.DevicePluginOptions:
    return pb.DevicePluginOptions(get_preferred_allocation_available=True)


def device_list(devices: Iterable[Device]) -> tuple[pb.ListAndWatchResponse, int]:
    """Return the message, and how many devices at the end had to be left out of it for the size limit."""
    rendered = [_device(device) for device in devices]
    size_bytes = kept = 0
    for device in rendered:
        size_bytes += device.ByteSize() + _DEVICE_FRAME_BYTES
        if size_bytes > LIST_LIMIT_BYTES:
            break
        kept += 1
    return pb.ListAndWatchResponse(devices=rendered[:kept]), len(rendered) - kept


def _device(device: Device) -> pb.Device:
    """Topology only where there is some: the kubelet reads -1 and an unknown id as nodes of their own."""
    message = pb.Device(ID=device.id, health=HEALTHY if device.healthy else UNHEALTHY)
    nodes = [node for node in device.nodes if node >= 0]
    if nodes:
        message.topology.nodes.extend(pb.NUMANode(ID=node) for node in nodes)
    return message


def container_response(edits: ContainerEdits) -> pb.ContainerAllocateResponse:
    """Return what Allocate answers for one container; ``env_json`` as compact JSON text."""
    return pb.ContainerAllocateResponse(
        envs={
            **edits.env,
            **{key: json.dumps(dict(value), separators=(",", ":")) for key, value in edits.env_json.items()},
        },
        mounts=[
            pb.Mount(container_path=one.container_path, host_path=one.host_path, read_only=one.read_only)
            for one in edits.mounts
        ],
        devices=[
            pb.DeviceSpec(
                container_path=one.container_path, host_path=one.host_path, permissions=one.permissions
            )
            for one in edits.device_nodes
        ],
        annotations=dict(edits.annotations),
        cdi_devices=[pb.CDIDevice(name=name) for name in edits.cdi_devices],
    )
