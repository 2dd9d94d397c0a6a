"""Where the configuration of this node's kubelet is found: its file, or configz through the API server."""

from __future__ import annotations

import asyncio
from functools import partial

from numaplace.config.schema import Config
from numaplace.daemon.cluster.part import ClusterPart
from numaplace.errors import PeerError
from numaplace.kubelet.config.model import KnownKubelet, steering_node
from numaplace.kubelet.config.read import look_at_kubelet, settings_of
from numaplace.kubelet.plugin.watch import KUBELET_SOCKET

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
            look_at_kubelet,
            file=config.kubelet.config_file,
            folder=None,
            procfs=config.host.procfs,
            socket=config.kubelet.device_plugin_directory / KUBELET_SOCKET,
        )
        fact = await asyncio.to_thread(look)
        if fact.settings is not None and not fact.changed:
            return KnownKubelet(fact.settings, f"file {', '.join(fact.sources)}")
        problem = fact.problem or f"{fact.changed} was changed after the kubelet's start"
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


def _unanswered(error: PeerError) -> str:
    if error.code in _REFUSED:
        return (
            f"the API server does not let the daemon read the node's configz ({error.code}): "
            "set kubelet.configFile, or allow get of nodes/proxy"
        )
    return f"the node's configz cannot be read ({error})"
