"""The emulator's PodResources service: the node's replies, delayed, refused or rate limited by the faults."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
from grpc import aio

from numaplace.kubelet.api import podresources_pb2 as pb
from numaplace.kubelet.api.podresources_pb2_grpc import PodResourcesListerServicer
from numaplace.kubelet.emulator.node import Node
from numaplace.kubelet.emulator.values import Faults, PodResourcesMethod, RateLimit

_Context = aio.ServicerContext[Any, Any]


class TokenBucket:
    """A rate limit over monotonic seconds: full at first, refilled continuously."""

    def __init__(self) -> None:
        self._used = 0.0
        self._at = 0.0

    def allow(self, limit: RateLimit, *, now_seconds: float) -> bool:
        self._used = max(0.0, self._used - (now_seconds - self._at) * limit.per_second)
        self._at = now_seconds
        if self._used + 1 > limit.burst:
            return False
        self._used += 1
        return True


class PodResourcesService(PodResourcesListerServicer):
    """List, Get and GetAllocatableResources of podresources/v1."""

    def __init__(self, node: Node, *, faults: Callable[[], Faults]) -> None:
        self._node = node
        self._faults = faults
        self._bucket = TokenBucket()

    async def List(  # noqa: N802
        self,
        request: pb.ListPodResourcesRequest,
        context: _Context,
    ) -> pb.ListPodResourcesResponse:
        """All active pods, without their init containers."""
        await self._misbehave("List", context)
        return self._node.list_reply()

    async def Get(  # noqa: N802
        self,
        request: pb.GetPodResourcesRequest,
        context: _Context,
    ) -> pb.GetPodResourcesResponse:
        """One active pod; UNKNOWN if there is none of that name, as the kubelet answers."""
        await self._misbehave("Get", context)
        reply = self._node.get_reply((request.pod_namespace, request.pod_name))
        if reply is None:
            await context.abort(grpc.StatusCode.UNKNOWN, f"no pod {request.pod_namespace}/{request.pod_name}")
        return reply

    async def GetAllocatableResources(  # noqa: N802
        self,
        request: pb.AllocatableResourcesRequest,
        context: _Context,
    ) -> pb.AllocatableResourcesResponse:
        """Capacity, not what is free."""
        await self._misbehave("GetAllocatableResources", context)
        return self._node.allocatable_reply()

    async def _misbehave(self, method: PodResourcesMethod, context: _Context) -> None:
        faults = self._faults()
        limit = faults.rate_limit
        if limit and not self._bucket.allow(limit, now_seconds=asyncio.get_running_loop().time()):
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls")
        await asyncio.sleep(faults.delays_seconds.get(method, 0))
        if code := faults.errors.get(method):
            await context.abort(grpc.StatusCode[code], f"{method} fails on purpose")
