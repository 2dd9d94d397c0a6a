"""The cluster that run.sh starts: control plane, runtimes and kubelets as processes of this machine."""

from __future__ import annotations

import contextlib
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cluster.anycluster import Cluster, Node
from cluster.controlplane import ControlPlane, control_plane
from cluster.kubelet import DEVICE_PLUGINS, POD_RESOURCES, kubelet
from cluster.nodes import NodeSpec, Space, space
from cluster.runtime import containerd, write_sandbox_image
from cluster.trees import NUMA_NODES, simulated_hardware


@dataclass(frozen=True, slots=True)
class Binaries:
    """What build.sh and image.sh have made."""

    kubelet: Path
    older_kubelet: Path
    control_plane: Path
    etcd: Path
    containerd: Path
    pause: Path
    image: Path


@contextlib.contextmanager
def local_cluster(binaries: Binaries, scratch: Path) -> Iterator[Cluster]:
    """Run a cluster of two unlike nodes until the block ends; n2 has more NUMA nodes and an older kubelet."""
    specs = (
        NodeSpec("n1", 1, numa_nodes=NUMA_NODES["n1"], kubelet=binaries.kubelet),
        NodeSpec("n2", 2, numa_nodes=NUMA_NODES["n2"], kubelet=binaries.older_kubelet),
    )
    sandbox = scratch / "pause.tar"
    write_sandbox_image(sandbox, binaries.pause)
    with contextlib.ExitStack() as stack:
        plane = stack.enter_context(
            control_plane(
                binaries.control_plane,
                binaries.etcd,
                scratch / "plane",
                nodes=[spec.name for spec in specs],
            )
        )
        spaces = [stack.enter_context(space(spec, scratch)) for spec in specs]
        images = (sandbox, binaries.image)
        nodes = [_start_node(stack, binaries, one, plane=plane, images=images) for one in spaces]
        yield Cluster(
            api=plane.api,
            kubeconfig=plane.kubeconfig("admin"),
            nodes=tuple(nodes),
            api_server_away=plane.api_server_away,
        )


def _start_node(
    stack: contextlib.ExitStack,
    binaries: Binaries,
    space: Space,
    *,
    plane: ControlPlane,
    images: Sequence[Path],
) -> Node:
    runtime = stack.enter_context(containerd(binaries.containerd, space, images=images))
    running = stack.enter_context(kubelet(space, plane=plane, runtime_socket=runtime.socket))
    return Node(
        name=space.spec.name,
        hardware=simulated_hardware(space.folder / "host"),
        pod_resources=space.outside(POD_RESOURCES),
        device_plugins=space.outside(DEVICE_PLUGINS),
        manifests=space.folder / "manifests",
        fetch=_fetch,
        kill=runtime.kill,
        kubelet_with=running.running_with,
    )


def _fetch(url: str) -> str:
    # The way to the pods is the same from here as from the node.
    with urllib.request.urlopen(url, timeout=10) as reply:
        text: str = reply.read().decode()
        return text
