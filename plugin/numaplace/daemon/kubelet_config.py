"""Where the configuration of this node's kubelet is found: its file, or configz through the API server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from numaplace.config.schema import Config
from numaplace.daemon.cluster import ClusterPart
from numaplace.errors import PeerError
from numaplace.kubelet.known import KnownKubelet, steering_node
from numaplace.kubelet.settings import look_at_kubelet, settings_of
from numaplace.kubelet.watch import KUBELET_SOCKET

__all__ = ["KnownKubelet", "find_kubelet", "steering_node"]

CONFIGZ_SECONDS = 10.0

_REFUSED = ("401", "403")


async def find_kubelet(config: Config, cluster: ClusterPart | None) -> KnownKubelet:
    """Return what ``kubelet.configFile`` says, or else the node's configz; never raises.

    A kubelet reads its configuration when it starts: ask again after each restart. A file that was changed
    since then says nothing of the running one.
    """
    problem = "kubelet.configFile is not set"
    if config.kubelet.config_file is not None:
        look = partial(
            look_at_kubelet, file=config.kubelet.config_file, folder=None, procfs=config.host.procfs
        )
        fact = await asyncio.to_thread(look)
        changed = _changed_since(config.kubelet.device_plugin_directory / KUBELET_SOCKET, fact.sources)
        if fact.settings is not None and not changed:
            return KnownKubelet(fact.settings, f"file {', '.join(fact.sources)}")
        problem = fact.problem or f"{changed} was changed after the kubelet's start"
    if cluster is None:
        return KnownKubelet(problem=f"{problem}, and the API server is not used")
    try:
        async with asyncio.timeout(CONFIGZ_SECONDS):
            document = await cluster.configz()
    except PeerError as error:
        return KnownKubelet(problem=f"{problem}; {_unanswered(error)}", passing=error.code not in _REFUSED)
    except TimeoutError:
        what = f"the node's configz did not come within {CONFIGZ_SECONDS:.0f} s"
        return KnownKubelet(problem=f"{problem}; {what}", passing=True)
    return KnownKubelet(settings_of(document), f"configz of node {cluster.node_name}")


def _changed_since(socket: Path, sources: Sequence[str]) -> str:
    """Return a file that is newer than the socket, which the kubelet makes when it starts; empty for none.

    A file that is mounted into a container stays the old one when the node's is replaced: it has no name
    then.
    """
    started = _modified_at(socket)
    changed = (
        one
        for one in sources
        if _replaced(Path(one)) or (started is not None and (_modified_at(Path(one)) or 0) > started)
    )
    return next(changed, "")


def _replaced(path: Path) -> bool:
    try:
        return path.stat().st_nlink == 0
    except OSError:
        return False


def _modified_at(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


def _unanswered(error: PeerError) -> str:
    if error.code in _REFUSED:
        return (
            f"the API server does not let the daemon read the node's configz ({error.code}): "
            "set kubelet.configFile, or allow get of nodes/proxy"
        )
    return f"the node's configz cannot be read ({error})"
