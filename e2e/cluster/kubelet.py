"""A kubelet that belongs to the cluster, in the namespaces of its node."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import grpc
import yaml
from cluster.anycluster import KUBELET_CONFIGURATION
from cluster.controlplane import ControlPlane
from cluster.nodes import Space
from harness import podresources
from harness.process import Process
from harness.waiters import until

STATE = Path("/var/lib/kubelet")
DEVICE_PLUGINS = STATE / "device-plugins"
POD_RESOURCES = STATE / "pod-resources/kubelet.sock"


def _configuration(runtime_socket: Path, folder: Path, *, manifests: Path) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{runtime_socket}",
        "volumePluginDir": str(folder / "volumeplugins"),
        "staticPodPath": str(manifests),
        "fileCheckFrequency": "1s",
        "registerNode": True,
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "failCgroupV1": False,
        "failSwapOn": False,
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "makeIPTablesUtilChains": False,
        "localStorageCapacityIsolation": False,
        "imageGCHighThresholdPercent": 100,
        "syncFrequency": "5s",
        "nodeStatusUpdateFrequency": "2s",
        "resolvConf": "",
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
        },
    }


class Kubelet:
    """The kubelet of a node. It takes static pods from ``manifests`` in the node's scratch folder."""

    def __init__(self, space: Space, *, plane: ControlPlane, runtime_socket: Path) -> None:
        self._space = space
        self._plane = plane
        folder = space.folder / "kubelet"
        folder.mkdir()
        self._log = folder / "kubelet.log"
        self._settings = _configuration(runtime_socket, folder, manifests=space.folder / "manifests")
        self._process: Process | None = None

    def start(self) -> None:
        """Start it and wait until its node is Ready."""
        name = self._space.spec.name
        self._space.outside(Path(KUBELET_CONFIGURATION)).write_text(yaml.safe_dump(self._settings))
        flags = {
            "--config": KUBELET_CONFIGURATION,
            "--kubeconfig": self._plane.kubeconfig(f"kubelet-{name}"),
            "--root-dir": STATE,
            "--cert-dir": self._log.parent / "pki",
            "--hostname-override": name,
            "--node-ip": self._space.spec.address,
            "--v": 3,
        }
        command = [str(self._space.spec.kubelet), *(f"{flag}={value}" for flag, value in flags.items())]
        self._process = Process(self._space.command(*command), self._log)
        until(self._ready, f"the node {name} to be Ready", limit_seconds=90)

    def _ready(self) -> bool:
        name = self._space.spec.name
        assert self._process is not None
        assert self._process.exit_code is None, (
            f"the kubelet of {name} ended: {self._log.read_text()[-2000:]}"
        )
        return _is_ready(self._plane, name) and answers(self._space.outside(POD_RESOURCES))

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    @contextlib.contextmanager
    def running_with(self, settings: Mapping[str, object]) -> Iterator[None]:
        """Restart it with other settings, and with its own when the block ends."""
        before = self._settings
        self._restart(before | dict(settings))
        try:
            yield
        finally:
            self._restart(before)

    def _restart(self, settings: dict[str, object]) -> None:
        self.kill()
        forget_policies(self._space.outside(STATE))
        self._settings = settings
        self.start()


@contextlib.contextmanager
def kubelet(space: Space, *, plane: ControlPlane, runtime_socket: Path) -> Iterator[Kubelet]:
    """Run a kubelet until the block ends; when the block starts, its node is Ready."""
    running = Kubelet(space, plane=plane, runtime_socket=runtime_socket)
    try:
        running.start()
        yield running
    finally:
        running.kill()


def forget_policies(state: Path) -> None:
    """Remove what would keep a kubelet from a start with another policy, as the operator has to."""
    for manager in ("cpu", "memory"):
        (state / f"{manager}_manager_state").unlink(missing_ok=True)


def _is_ready(plane: ControlPlane, name: str) -> bool:
    path = f"/api/v1/nodes/{name}"
    if not plane.api.exists(path):
        return False
    node = plane.api.get(path)
    conditions = {one["type"]: one["status"] for one in node["status"].get("conditions", ())}
    return conditions.get("Ready") == "True" and not node["spec"].get("taints")


def answers(pod_resources: Path) -> bool:
    """Return whether a kubelet answers there."""
    try:
        podresources.list_pods(pod_resources)
    except grpc.RpcError:
        return False
    return True
