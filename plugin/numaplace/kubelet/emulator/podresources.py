"""The emulator's PodResources service: the node's replies, delayed, refused or rate limited by the faults."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import grpc
from grpc import aio

from numaplace.kubelet.api import podresources_pb2 as pb
from numaplace.kubelet.api.podresources_pb2_grpc import PodResourcesListerServicer
from numaplace.kubelet.emulator.node import Node
from numaplace.kubelet.emulator.values import Faults, PodResourcesMethod, RateLimit
from numaplace.model.pacing import TokenBucket

_Context = aio.ServicerContext[Any, Any]


class PodResourcesService(PodResourcesListerServicer):
    """List, Get and GetAllocatableResources of podresources/v1; ``calls`` counts them."""

    def __init__(
        self, node: Node, *, faults: Callable[[], Faults], calls: Counter[PodResourcesMethod]
    ) -> None:
        self._node = node
        self._faults = faults
        self._calls = calls
        self._bucket: tuple[RateLimit, TokenBucket] | None = None

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
        self._calls[method] += 1
        if faults.rate_limit and self._used_up(faults.rate_limit):
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls")
        await asyncio.sleep(faults.delays_seconds.get(method, 0))
        if code := faults.errors.get(method):
            await context.abort(grpc.StatusCode[code], f"{method} fails on purpose")

    def _used_up(self, limit: RateLimit) -> bool:
        now = asyncio.get_running_loop().time()
        if self._bucket is None or self._bucket[0] != limit:
            bucket = TokenBucket(rate_per_second=limit.per_second, burst=limit.burst, now_seconds=now)
            self._bucket = (limit, bucket)
        return self._bucket[1].take(now) > 0.0
