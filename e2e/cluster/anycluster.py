"""What the tests know of a cluster, however it is made: an API server, and nodes with kubelets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from cluster.api import Api
from harness.hardware import Hardware

IMAGE_REPOSITORY = "localhost/numaplace"
IMAGE_TAG = "e2e"
KUBELET_CONFIGURATION = "/var/lib/kubelet/config.yaml"
"""Where kubeadm has it, and so have we."""

IMAGE = f"{IMAGE_REPOSITORY}:{IMAGE_TAG}"


@dataclass(frozen=True, slots=True)
class Node:
    """A node with simulated cards. Paths are those of the machine that the tests run on.

    ``device_plugins`` is the kubelet's folder of sockets, ``manifests`` the one of its static pods. ``fetch``
    gets a URL as from the node, also that of a pod. ``kubelet_with`` has the kubelet run with other settings
    (of its configuration file) while a block runs; daemons then have to be made anew. ``kill`` ends a
    container at once, by its id at the container runtime.
    """

    name: str
    hardware: Hardware
    pod_resources: Path
    device_plugins: Path
    manifests: Path
    fetch: Callable[[str], str]
    kill: Callable[[str], None]
    kubelet_with: Callable[[Mapping[str, object]], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster. ``kubeconfig`` is an administrator's; ``values`` are what the chart needs here."""

    api: Api
    kubeconfig: Path
    nodes: tuple[Node, ...]
    api_server_away: Callable[[], AbstractContextManager[None]]
    values: Mapping[str, object] = field(default_factory=dict)
