"""The device-plugin service (deviceplugin/v1beta1) of one resource: translates, and decides nothing.

What a kubelet does with errors decides how they are treated here (kubelet ``cm/devicemanager``):

- GetPreferredAllocation: an error fails the pod's admission although every device would do. So there is
  none: whatever goes wrong, the answer is a valid one (``preference.fallback``), and ``on_error`` is called.
- Allocate: an error fails the pod, an empty answer starts a container without its device. The handler should
  therefore answer for devices that have just gone, too, and raise only for ids that it does not know: that
  error reaches the kubelet. Its reply is passed on with fields that are not known here.
- ListAndWatch: an empty list removes the resource, the end of a stream only marks it unhealthy until the next
  registration. So a stream that ends for our reasons ends without another message.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NoReturn, Protocol, TypeVar, cast

import grpc
from grpc import aio

from numaplace.errors import PeerError
from numaplace.kubelet.api import deviceplugin_pb2 as pb
from numaplace.kubelet.api import deviceplugin_pb2_grpc as rpc
from numaplace.kubelet.plugin.devicelist import DeviceList, DeviceListBroadcaster, StreamCursor
from numaplace.kubelet.plugin.preference import complaint_about_answer, complaint_about_request, fallback
from numaplace.kubelet.plugin.render import device_list
from numaplace.model.names import DeviceId, ResourceName

__all__ = ["DeviceList", "DeviceListBroadcaster", "DevicePluginService", "ErrorCallback", "PluginHandler"]

ErrorCallback = Callable[[str, Exception], None]
"""Gets (RPC name, exception) of everything that was caught here."""

PREFERRED_LIMIT_SECONDS = 11.0
"""The last resort: the handler keeps its own deadline, 10 s at most. A later answer is a fallback."""

_LOG = logging.getLogger(__name__)

_Context = aio.ServicerContext[Any, Any]
_T = TypeVar("_T")


class PluginHandler(Protocol):
    """Decides for one resource. Called on the event loop, by several RPCs at a time."""

    @property
    def resource(self) -> ResourceName: ...

    @property
    def options(self) -> pb.DevicePluginOptions:
        """What Register and GetDevicePluginOptions tell the kubelet; it uses the latter."""

    @property
    def board(self) -> DeviceListBroadcaster: ...

    def following(self) -> AbstractContextManager[StreamCursor]: ...

    async def preferred(
        self, available: Sequence[DeviceId], must_include: Sequence[DeviceId], size: int
    ) -> Sequence[DeviceId]:
        """Return ``size`` distinct ids of those offered, with ``must_include`` among them."""

    async def allocate(self, ids: Sequence[DeviceId]) -> pb.AllocateResponse:
        """Return what one container gets with these devices; what it raises fails the pod."""

    async def pre_start(self, ids: Sequence[DeviceId]) -> pb.PreStartContainerResponse:
        """Prepare these devices for a container; what it raises fails the container's start."""


class DevicePluginService(rpc.DevicePluginServicer):
    """Serves one start of a resource's server. ``on_streams`` gets the number of open streams."""

    def __init__(
        self,
        handler: PluginHandler,
        *,
        on_error: ErrorCallback,
        on_streams: Callable[[int], None] = lambda _: None,
        preferred_limit_seconds: float = PREFERRED_LIMIT_SECONDS,
    ) -> None:
        self._handler = handler
        self._on_error = on_error
        self._on_streams = on_streams
        self._preferred_limit_seconds = preferred_limit_seconds
        self._streams = 0
        self._draining = asyncio.Event()

    def drain(self) -> None:
        """End all streams, and those that still open, without another message."""
        self._draining.set()

    async def GetDevicePluginOptions(  # noqa: N802 - the protocol's name
        self, request: pb.Empty, context: _Context
    ) -> pb.DevicePluginOptions:
        return self._handler.options

    async def ListAndWatch(  # noqa: N802
        self, request: pb.Empty, context: _Context
    ) -> AsyncIterator[pb.ListAndWatchResponse]:
        """Send the full list at once, then each changed one, until the kubelet or ``drain`` ends it.

        What was yielded has been written when the generator resumes: then the cursor is updated.
        """
        with self._counted_stream(), self._handler.following() as follower:
            sent: pb.ListAndWatchResponse | None = None
            current: DeviceList | None = None
            while not self._draining.is_set():
                try:
                    current = await self._next_list(current)
                    message = self._rendered(current) if current else None
                except Exception as error:
                    self._report("ListAndWatch", error)
                    raise
                if message is not None and message != sent:
                    sent = message
                    yield message
                if current is not None:
                    self._handler.board.written(follower, current.version)

    async def GetPreferredAllocation(  # noqa: N802
        self, request: pb.PreferredAllocationRequest, context: _Context
    ) -> pb.PreferredAllocationResponse:
        """Return one response per container request; never an error."""
        return pb.PreferredAllocationResponse(
            container_responses=[
                pb.ContainerPreferredAllocationResponse(deviceIDs=await self._preferred(one))
                for one in request.container_requests
            ]
        )

    async def Allocate(  # noqa: N802
        self, request: pb.AllocateRequest, context: _Context
    ) -> pb.AllocateResponse:
        try:
            reply = pb.AllocateResponse()
            for ids in request.container_requests:
                reply.MergeFrom(await self._handler.allocate([DeviceId(one) for one in ids.devices_ids]))
        except Exception as error:  # noqa: BLE001 - a failure of ours must name its reason in the pod's status
            await self._abort("Allocate", error, context)
        return reply

    async def PreStartContainer(  # noqa: N802
        self, request: pb.PreStartContainerRequest, context: _Context
    ) -> pb.PreStartContainerResponse:
        try:
            return await self._handler.pre_start([DeviceId(one) for one in request.devices_ids])
        except Exception as error:  # noqa: BLE001 - a failure of ours must name its reason in the pod's status
            await self._abort("PreStartContainer", error, context)

    async def _preferred(self, request: pb.ContainerPreferredAllocationRequest) -> Sequence[DeviceId]:
        # One call that copies them all: there may be hundreds.
        available = cast(list[DeviceId], list(request.available_deviceIDs))
        must_include = cast(list[DeviceId], list(request.must_include_deviceIDs))
        size = request.allocation_size
        try:
            return await self._handlers_choice(available, must_include, size)
        except asyncio.CancelledError as error:
            # Cancelled by the kubelet, or only something that the handler waited for was (a closed channel)?
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            self._report("GetPreferredAllocation", PeerError(f"{error!r} in the handler", code="CANCELLED"))
        except Exception as error:  # noqa: BLE001 - an error would fail the pod; it is reported
            self._report("GetPreferredAllocation", error)
        return fallback(available, must_include, size)

    async def _handlers_choice(
        self, available: Sequence[DeviceId], must_include: Sequence[DeviceId], size: int
    ) -> Sequence[DeviceId]:
        """Return the handler's answer; raise for a request without one, and for a wrong or late answer."""
        resource = self._handler.resource
        if complaint := complaint_about_request(available, must_include, size):
            raise PeerError(f"{resource}: {complaint}", code="INVALID_ARGUMENT")
        async with asyncio.timeout(self._preferred_limit_seconds):
            answer = await self._handler.preferred(available, must_include, size)
        if complaint := complaint_about_answer(
            answer, available=available, must_include=must_include, size=size
        ):
            raise ValueError(f"{resource}: {complaint}")
        return answer

    async def _next_list(self, current: DeviceList | None) -> DeviceList | None:
        """Return the next list to send: at once for a new stream; ``None`` when draining comes first."""
        if current is None:
            return self._handler.board.current
        return await _first(self._handler.board.wait_change(current.version), unless=self._draining)

    def _rendered(self, devices: DeviceList) -> pb.ListAndWatchResponse:
        message, left_out = device_list(devices.devices)
        if left_out:
            text = f"{self._handler.resource}: {left_out} devices do not fit the kubelet's message limit"
            self._report("ListAndWatch", PeerError(text, code="RESOURCE_EXHAUSTED"))
        return message

    async def _abort(self, method: str, error: Exception, context: _Context) -> NoReturn:
        self._report(method, error)
        code = grpc.StatusCode.NOT_FOUND if isinstance(error, PeerError) else grpc.StatusCode.INTERNAL
        await context.abort(code, f"{self._handler.resource}: {error}")

    def _report(self, method: str, error: Exception) -> None:
        """Call ``on_error``; a report that fails must not become the kubelet's error."""
        try:
            self._on_error(method, error)
        except Exception:  # noqa: BLE001 - logged
            _LOG.exception("on_error failed", extra={"resource": self._handler.resource, "rpc": method})

    @contextmanager
    def _counted_stream(self) -> Iterator[None]:
        self._streams += 1
        self._on_streams(self._streams)
        try:
            yield
        finally:
            self._streams -= 1
            self._on_streams(self._streams)


async def _first(call: Coroutine[Any, Any, _T], *, unless: asyncio.Event) -> _T | None:
    """Return the coroutine's result, or ``None`` when the event is set first; leaves no task behind."""
    value = asyncio.create_task(call)
    stop = asyncio.create_task(unless.wait())
    try:
        await asyncio.wait({value, stop}, return_when=asyncio.FIRST_COMPLETED)
        return value.result() if value.done() and not stop.done() else None
    finally:
        value.cancel()
        stop.cancel()
        await asyncio.gather(value, stop, return_exceptions=True)
