"""The processes beside the daemon: ``python -m bench.child ROLE FOLDER [RESOURCE…]``.

Each prints one line of JSON when it is ready (the kubelet: one more when all resources are registered), and
ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import prometheus_client
from grpc import aio, method_handlers_generic_handler, unary_unary_rpc_method_handler
from numaplace.kubelet.api import deviceplugin_pb2 as pb
from numaplace.kubelet.api import deviceplugin_pb2_grpc as rpc
from numaplace.kubelet.channel import new_server, unix_target

Context = aio.ServicerContext[Any, Any]

LIST_SERVICE = "v1.PodResourcesLister"
CONTROL_SERVICE = "bench.Control"


class Reference(rpc.DevicePluginServicer):
    """Decodes a GetPreferredAllocation request and returns a constant. Nothing else is called."""

    async def GetPreferredAllocation(  # noqa: N802 - the protocol's name
        self, request: pb.PreferredAllocationRequest, context: Context
    ) -> pb.PreferredAllocationResponse:
        return pb.PreferredAllocationResponse(
            container_responses=[pb.ContainerPreferredAllocationResponse(deviceIDs=["vf-0-0"])]
        )

    async def Allocate(self, request: pb.AllocateRequest, context: Context) -> pb.AllocateResponse:  # noqa: N802
        return pb.AllocateResponse()

    async def GetDevicePluginOptions(self, request: pb.Empty, context: Context) -> pb.DevicePluginOptions:  # noqa: N802
        return pb.DevicePluginOptions()

    async def PreStartContainer(  # noqa: N802
        self, request: pb.PreStartContainerRequest, context: Context
    ) -> pb.PreStartContainerResponse:
        return pb.PreStartContainerResponse()

    async def ListAndWatch(  # noqa: N802
        self, request: pb.Empty, context: Context
    ) -> AsyncIterator[pb.ListAndWatchResponse]:
        yield pb.ListAndWatchResponse()


class Listing:
    """A PodResources API that answers with bytes it was given, several in turn."""

    def __init__(self) -> None:
        self._lists: list[bytes] = [b""]
        self._allocatable = b""
        self._next = 0

    def add_to(self, server: aio.Server) -> None:
        server.add_generic_rpc_handlers(
            (
                _raw(LIST_SERVICE, {"List": self._list, "GetAllocatableResources": self._capacity}),
                _raw(
                    CONTROL_SERVICE,
                    {"Replace": self._replace, "Add": self._add, "Allocatable": self._set_allocatable},
                ),
            )
        )

    async def _list(self, request: bytes, context: object) -> bytes:
        self._next += 1
        return self._lists[self._next % len(self._lists)]

    async def _capacity(self, request: bytes, context: object) -> bytes:
        return self._allocatable

    async def _replace(self, request: bytes, context: object) -> bytes:
        self._lists = [request]
        return b""

    async def _add(self, request: bytes, context: object) -> bytes:
        self._lists.append(request)
        return b""

    async def _set_allocatable(self, request: bytes, context: object) -> bytes:
        self._allocatable = request
        return b""


def _raw(service: str, methods: dict[str, Callable[[bytes, object], Awaitable[bytes]]]) -> Any:
    handlers: Any = {name: unary_unary_rpc_method_handler(method) for name, method in methods.items()}
    return method_handlers_generic_handler(service, handlers)


async def reference(folder: Path, _: list[str]) -> None:
    """Serve the constant, as the daemon would: a server of the same kind, with the same imports."""
    server = new_server()
    rpc.add_DevicePluginServicer_to_server(Reference(), server)
    server.add_insecure_port(unix_target(folder / "reference.sock"))
    await server.start()
    prometheus_client.Counter("calls", "Calls.")
    say({"ready": time.monotonic()})
    await ended()
    await server.stop(None)


async def kubelet(folder: Path, resources: list[str]) -> None:
    """Be the kubelet: Registration and ListAndWatch by the emulator, PodResources by given bytes."""
    from numaplace.kubelet.emulator import EmulatedNode, KubeletEmulator
    from numaplace.model.topology import NumaTopology

    server = new_server()
    Listing().add_to(server)
    server.add_insecure_port(unix_target(folder / "list.sock"))
    await server.start()
    async with KubeletEmulator(folder, EmulatedNode(NumaTopology(nodes=tuple(range(8))))) as emulator:
        say({"ready": time.monotonic()})
        stop = asyncio.create_task(ended())

        def all_known() -> bool:
            return all(emulator.allocatable(resource) for resource in resources)  # type: ignore[arg-type]

        await emulator.wait_until(all_known, timeout_seconds=60)
        sockets = {one.resource: one.socket_path for one in emulator.endpoints}
        say({"registered": time.monotonic(), "sockets": sockets})
        await stop
    await server.stop(None)


async def ended() -> None:
    """Return when standard input is closed."""
    await asyncio.to_thread(sys.stdin.read)


def say(fact: dict[str, object]) -> None:
    """Print a fact for the parent."""
    print(json.dumps(fact), flush=True)


if __name__ == "__main__":
    asyncio.run({"reference": reference, "kubelet": kubelet}[sys.argv[1]](Path(sys.argv[2]), sys.argv[3:]))
