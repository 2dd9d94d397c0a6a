"""The kubelet's PodResources API (podresources/v1; kubelet ``apis/podresources``) behind one address.

``unix:/path/to/kubelet.sock`` is a kubelet's socket, ``fake:DIR`` a folder with recorded replies.
The kubelet limits all clients of the node together to 100 calls per second, in bursts of 10: this module
does not pace, ``numaplace.kubelet.podresources.poller`` does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from google.protobuf.message import Message
from grpc import aio

from numaplace.errors import InputError, PeerError
from numaplace.kubelet.api import podresources_pb2 as pb
from numaplace.kubelet.channel import answer_of, open_channel, unix_target
from numaplace.kubelet.podresources.convert import ListDecoder, decode_allocatable, decode_pod
from numaplace.kubelet.podresources.fake import FakePodResources
from numaplace.kubelet.sockets import SocketIdentity, socket_identity
from numaplace.model.podresources import Allocatable, PodUse

CallObserver = Callable[[str, str], None]
"""Gets (method, code) of each call: ``List``, ``Get`` or ``GetAllocatableResources``; ``OK``, a gRPC code's
name, or ``DECODE`` for a reply that is no message of that type."""

_SERVICE = "/v1.PodResourcesLister/"
_METHODS = ("List", "Get", "GetAllocatableResources")
_RETIRED_GRACE_SECONDS = 5.0
_UNKNOWN_POD = frozenset({"NOT_FOUND", "UNKNOWN"})

_T = TypeVar("_T")


class PodResources(Protocol):
    """What the kubelet has given to pods. Every failure is a ``PeerError`` whose ``code`` names it."""

    async def list(self, *, timeout_seconds: float) -> tuple[PodUse, ...]:
        """Return all pods that the kubelet lists; an unchanged pod is the same object as last time."""

    async def get(self, namespace: str, name: str, *, timeout_seconds: float) -> PodUse | None:
        """Return one pod, ``None`` when the kubelet does not have it.

        The kubelet answers a plain error (gRPC ``UNKNOWN``) for a pod that it does not have, and before 1.36
        also where Get is switched off. Kubelets without Get raise ``UNIMPLEMENTED``. Fall back to ``list``.
        """

    async def allocatable(self, *, timeout_seconds: float) -> Allocatable:
        """Return the node's capacity (not what is free)."""

    async def close(self) -> None: ...


def connect(address: str, *, observe: CallObserver) -> PodResources:
    """Return the client for ``unix:/path`` or ``fake:DIR``; nothing is contacted before the first call.

    ``InputError`` for another scheme, an empty path, or a path too long for a socket.
    """
    scheme, _, path = address.partition(":")
    make = _SCHEMES.get(scheme)
    if make is None or not path:
        allowed = ", ".join(f"{name}:PATH" for name in _SCHEMES)
        raise InputError(f"PodResources address {address!r} is not one of {allowed}")
    return make(path, observe)


class SocketPodResources:
    """A client of one kubelet socket that follows the socket file when a restarted kubelet replaces it.

    gRPC alone would keep to a connection whose peer no longer owns the path, or wait out its back-off.
    Replies are taken as raw bytes, so that the decoder can recognise what did not change.
    """

    def __init__(self, path: str, observe: CallObserver) -> None:
        unix_target(path)
        self._path = path
        self._observe = observe
        self._decoder = ListDecoder()
        self._channel: aio.Channel | None = None
        self._calls: dict[str, aio.UnaryUnaryMultiCallable[Message, bytes]] = {}
        self._socket: SocketIdentity | None = None
        self._closing: set[asyncio.Task[None]] = set()

    async def list(self, *, timeout_seconds: float) -> tuple[PodUse, ...]:
        request = pb.ListPodResourcesRequest()
        return await self._call("List", request, self._decoder.decode, timeout_seconds=timeout_seconds)

    async def get(self, namespace: str, name: str, *, timeout_seconds: float) -> PodUse | None:
        request = pb.GetPodResourcesRequest(pod_name=name, pod_namespace=namespace)
        try:
            return await self._call("Get", request, decode_pod, timeout_seconds=timeout_seconds)
        except PeerError as error:
            if error.code in _UNKNOWN_POD:
                return None
            raise

    async def allocatable(self, *, timeout_seconds: float) -> Allocatable:
        request = pb.AllocatableResourcesRequest()
        return await self._call(
            "GetAllocatableResources", request, decode_allocatable, timeout_seconds=timeout_seconds
        )

    async def close(self) -> None:
        for task in self._closing:
            task.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)
        if self._channel is not None:
            await self._channel.close()
            self._channel = None

    async def _call(
        self, method: str, request: Message, decode: Callable[[bytes], _T], *, timeout_seconds: float
    ) -> _T:
        what = f"PodResources {method} at {self._path}"
        try:
            call = self._connected()[method](request, timeout=timeout_seconds)
            result = decode(await answer_of(call, what=what))
        except PeerError as error:
            self._observe(method, error.code)
            raise
        self._observe(method, "OK")
        return result

    def _connected(self) -> Mapping[str, aio.UnaryUnaryMultiCallable[Message, bytes]]:
        socket = socket_identity(self._path)
        if self._channel is None or (socket is not None and socket != self._socket):
            self._retire()
            self._socket = socket
            self._channel = channel = open_channel(self._path)
            self._calls = {
                method: channel.unary_unary(_SERVICE + method, request_serializer=_serialise)
                for method in _METHODS
            }
        return self._calls

    def _retire(self) -> None:
        if self._channel is not None:
            task = asyncio.create_task(self._channel.close(_RETIRED_GRACE_SECONDS))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


def _serialise(message: Message) -> bytes:
    return message.SerializeToString()


_SCHEMES: dict[str, Callable[[str, CallObserver], PodResources]] = {
    "unix": SocketPodResources,
    "fake": FakePodResources,
}
