"""A small device plugin: the kubelet alone (no preference), or a recorder of what the kubelet asks.

It registers once and answers at once; it knows nothing of strategies.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path

import grpc
from numaplace.kubelet.api import deviceplugin_pb2 as pb
from numaplace.kubelet.api import deviceplugin_pb2_grpc as rpc

from harness.podresources import CHANNEL_OPTIONS

PREFERRED = "GetPreferredAllocation"
ALLOCATE = "Allocate"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the kubelet. ``Allocate`` has only ``devices``; the preference has the other three."""

    method: str
    resource: str
    available: frozenset[str] = frozenset()
    must_include: frozenset[str] = frozenset()
    size: int = 0
    devices: frozenset[str] = frozenset()


Preference = Callable[[Call], list[str]]


def lowest_first(call: Call) -> list[str]:
    """Prefer the ids that sort first, whatever their NUMA nodes."""
    rest = sorted(call.available - call.must_include)
    return (sorted(call.must_include) + rest)[: call.size]


# A socket path must be short and new: the kubelet tells plugins apart by it.
_numbers = itertools.count(1)


class SmallPlugin:
    """A plugin for one resource whose devices are id -> NUMA nodes (none: no topology)."""

    def __init__(
        self,
        directory: Path,
        resource: str,
        devices: Mapping[str, tuple[int, ...]],
        *,
        preference: Preference | None = None,
        calls: list[Call] | None = None,
    ) -> None:
        self._directory = directory
        self._resource = resource
        self._devices = dict(devices)
        self._preference = preference
        self._server: grpc.Server | None = None
        self._stopped = threading.Event()
        self.calls: list[Call] = [] if calls is None else calls

    def register(self) -> None:
        """Serve on a fresh socket, then announce it to the kubelet."""
        self.stop()
        self._stopped = threading.Event()
        name = f"small-{next(_numbers)}.sock"
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        rpc.add_DevicePluginServicer_to_server(_Servicer(self, self._stopped), self._server)
        self._server.add_insecure_port(f"unix:{self._directory / name}")
        self._server.start()
        request = pb.RegisterRequest(
            version="v1beta1", endpoint=name, resource_name=self._resource, options=self.options()
        )
        kubelet = f"unix:{self._directory / 'kubelet.sock'}"
        with grpc.insecure_channel(kubelet, options=CHANNEL_OPTIONS) as channel:
            rpc.RegistrationStub(channel).Register(request, timeout=20, wait_for_ready=True)

    def stop(self) -> None:
        self._stopped.set()
        if self._server is not None:
            self._server.stop(grace=None).wait()
            self._server = None

    def options(self) -> pb.DevicePluginOptions:
        return pb.DevicePluginOptions(get_preferred_allocation_available=self._preference is not None)

    def devices(self) -> pb.ListAndWatchResponse:
        return pb.ListAndWatchResponse(
            devices=[
                pb.Device(
                    ID=device,
                    health="Healthy",
                    topology=pb.TopologyInfo(nodes=[pb.NUMANode(ID=n) for n in nodes]) if nodes else None,
                )
                for device, nodes in self._devices.items()
            ]
        )

    def prefer(self, request: pb.ContainerPreferredAllocationRequest) -> list[str]:
        call = Call(
            PREFERRED,
            self._resource,
            available=frozenset(request.available_deviceIDs),
            must_include=frozenset(request.must_include_deviceIDs),
            size=request.allocation_size,
        )
        self.calls.append(call)
        assert self._preference is not None
        return self._preference(call)

    def allocated(self, request: pb.ContainerAllocateRequest) -> None:
        self.calls.append(Call(ALLOCATE, self._resource, devices=frozenset(request.devices_ids)))


class _Servicer(rpc.DevicePluginServicer):
    def __init__(self, plugin: SmallPlugin, stopped: threading.Event) -> None:
        self._plugin = plugin
        self._stopped = stopped

    def GetDevicePluginOptions(self, request, context):  # noqa: N802
        return self._plugin.options()

    def ListAndWatch(self, request, context):  # noqa: N802
        context.add_callback(self._stopped.set)
        yield self._plugin.devices()
        self._stopped.wait()

    def GetPreferredAllocation(self, request, context):  # noqa: N802
        replies = [
            pb.ContainerPreferredAllocationResponse(deviceIDs=self._plugin.prefer(one))
            for one in request.container_requests
        ]
        return pb.PreferredAllocationResponse(container_responses=replies)

    def Allocate(self, request, context):  # noqa: N802
        for one in request.container_requests:
            self._plugin.allocated(one)
        empty = [pb.ContainerAllocateResponse() for _ in request.container_requests]
        return pb.AllocateResponse(container_responses=empty)
