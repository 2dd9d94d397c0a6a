"""Pods as JSON, credentials of a fake API server, and waiting."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from numaplace.cluster.client import ApiClient
from numaplace.cluster.credentials import Access, Server
from numaplace.cluster.fake import FakeApiServer

NODE = "worker-1"


def pod_json(
    name: str,
    limits: Mapping[str, str] | None = None,
    *,
    node: str = NODE,
    uid: str = "",
    phase: str = "Pending",
    **spec: Any,
) -> dict[str, Any]:
    containers = [{"name": "main", "image": "x", "resources": {"limits": dict(limits or {})}}]
    return {
        "kind": "Pod",
        "metadata": {
            "namespace": "default",
            "name": name,
            "uid": uid or f"uid-{name}",
            "managedFields": [{}],
        },
        "spec": {"nodeName": node, "containers": containers, **spec},
        "status": {"phase": phase},
    }


class FakeCredentials:
    """Plain HTTP, with a token."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.server = Server(parts.hostname or "", parts.port or 0)

    def access(self) -> Access:
        return Access(tls=None, authorization="Bearer secret")


def client_of(api: FakeApiServer) -> ApiClient:
    return ApiClient(FakeCredentials(api.url), user_agent="numaplace/test")


async def until(condition: Callable[[], Any], limit_seconds: float = 10.0) -> Any:
    end = time.monotonic() + limit_seconds
    while not (value := condition()):
        assert time.monotonic() < end, "it did not come about"
        await asyncio.sleep(0.005)
    return value
