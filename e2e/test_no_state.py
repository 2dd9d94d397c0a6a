"""A daemon that cannot read PodResources never makes a pod fail."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.backend import Tools
from harness.equipped import EquippedNode, equipped_node
from harness.flows import run_burst, run_one_by_one
from harness.hardware import NVIDIA, VF
from harness.kubelet import KubeletOptions
from harness.logs import LogKeeper
from harness.pods import Container, Pod, unique


@pytest.fixture(scope="module", params=["none", "single-numa-node"])
def site(
    request: pytest.FixtureRequest, tools: Tools, scratch: Path, logs: LogKeeper
) -> Iterator[EquippedNode]:
    options = KubeletOptions(topology_manager_policy=request.param)
    with equipped_node(tools, scratch, numa_nodes=2, options=options, logs=logs) as site:
        yield site


@pytest.fixture
def missing(tmp_path: Path) -> Path:
    return tmp_path / "nobody.sock"


@pytest.fixture
def silent(site: EquippedNode) -> Iterator[Path]:
    """A socket that takes connections and never says a word."""
    path = site.node.folder / "silent.sock"
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(64)
        yield path


@pytest.fixture
def garbage(site: EquippedNode) -> Iterator[Path]:
    """A socket that answers with bytes that are no gRPC."""
    path = site.node.folder / "garbage.sock"
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(64)
        thread = threading.Thread(target=_talk_nonsense, args=(listener,))
        thread.start()
        yield path
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def _talk_nonsense(listener: socket.socket) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            connection.sendall(b"\xff" * 64)


@pytest.mark.parametrize("kind", ["missing", "silent", "garbage"])
def test_every_pod_starts(site: EquippedNode, kind: str, request: pytest.FixtureRequest) -> None:
    broken: Path = request.getfixturevalue(kind)
    pods = [Pod.of(unique("both"), {VF: 1, NVIDIA: 1}) for _ in range(4)]
    pods += [Pod.of(unique("pair"), {VF: 2}) for _ in range(2)]
    layers = Pod(
        unique("layers"),
        containers=(Container("main", {VF: 1}),),
        init_containers=(Container("prepare", {VF: 1}, ends=True),),
    )
    with site.daemon("least-allocated", pod_resources_socket=broken) as daemon:
        run_one_by_one(site.node, [*pods, layers])
        run_burst(site.node, [Pod.of(unique("burst"), {NVIDIA: 1}) for _ in range(4)])
        placed = site.placement()
        assert all(len(placed.nodes(pod.name, VF)) == 1 for pod in pods), "one container, one NUMA node"
        assert daemon.alive
