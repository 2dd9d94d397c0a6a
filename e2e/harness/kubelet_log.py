"""What the kubelet's log says of one admission: the mask that it chose, the order in which it asked.

Read at verbosity 4. There is no other way to see either from outside.
"""

from __future__ import annotations

import re
from pathlib import Path

from harness.kubelet import NODE_NAME

_CONTAINER = r'pod="[^/]+/(?P<pod>[^"]+)" containerName="(?P<container>[^"]+)"'
_REQUEST = re.compile(
    r'"Making allocation request for device plugin" .*resourceName="(?P<value>[^"]+)" ' + _CONTAINER
)
_AFFINITY = re.compile(
    r'scope_\w+\.go.*"Topology Affinity" bestHint=\{"NUMANodeAffinity":(?P<value>\d+|null),.*' + _CONTAINER
)


def _values(pattern: re.Pattern[str], log: Path, *, pod: str, container: str) -> tuple[str, ...]:
    return tuple(
        match["value"]
        for match in pattern.finditer(log.read_text(errors="replace"))
        if (match["pod"], match["container"]) == (f"{pod}-{NODE_NAME}", container)
    )


def resource_order(log: Path, pod: str, container: str = "main") -> tuple[str, ...]:
    """Return the resources of a container in the order in which the kubelet allocated them."""
    return _values(_REQUEST, log, pod=pod, container=container)


def affinity_mask(log: Path, pod: str, container: str = "main") -> int | None:
    """Return the NUMA mask that the Topology Manager gave a container; None if it had no preference."""
    masks = _values(_AFFINITY, log, pod=pod, container=container)
    return int(masks[-1]) if masks and masks[-1] != "null" else None
