"""The configuration that a node's kubelet runs with, through the API server (``/configz`` of the kubelet)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from numaplace.cluster.client import ApiClient
from numaplace.cluster.decode import decode
from numaplace.errors import PeerError

_SECTION = "kubeletconfig"


async def fetch_configz(client: ApiClient, node_name: str) -> Mapping[str, Any]:
    """Return the KubeletConfiguration as JSON values, flags and drop-in files included.

    Needs ``get`` on ``nodes/proxy``. ``PeerError`` without an answer, or if it is something else.
    """
    path = f"/api/v1/nodes/{quote(node_name, safe='')}/proxy/configz"
    body = await client.request("GET", path)
    try:
        found = decode(body, object)
    except ValueError as exc:
        raise PeerError(f"GET {path}: the answer is not JSON") from exc
    section = found.get(_SECTION) if isinstance(found, dict) else None
    if not isinstance(section, dict):
        raise PeerError(f"GET {path}: the answer has no {_SECTION}")
    return section
