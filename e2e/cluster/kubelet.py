"""A kubelet that belongs to the cluster, in the namespaces of its node."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import grpc
import yaml
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


@contextlib.contextmanager
def kubelet(space: Space, *, plane: ControlPlane, runtime_socket: Path) -> Iterator[Process]:
    """Run a kubelet until the block ends; when the block starts, its node is Ready.

    It takes static pods from the folder ``manifests`` of the node's scratch folder.
    """
    folder, name = space.folder / "kubelet", space.spec.name
    folder.mkdir()
    configuration = _configuration(runtime_socket, folder, manifests=space.folder / "manifests")
    (folder / "kubelet.yaml").write_text(yaml.safe_dump(configuration))
    log = folder / "kubelet.log"
    flags = {
        "--config": folder / "kubelet.yaml",
        "--kubeconfig": plane.kubeconfig(f"kubelet-{name}"),
        "--root-dir": STATE,
        "--cert-dir": folder / "pki",
        "--hostname-override": name,
        "--node-ip": space.spec.address,
        "--v": 3,
    }
    command = [str(space.spec.kubelet), *(f"{flag}={value}" for flag, value in flags.items())]
    process = Process(space.command(*command), log)
    try:

        def ready() -> bool:
            assert process.exit_code is None, f"the kubelet of {name} ended: {log.read_text()[-2000:]}"
            return _is_ready(plane, name) and _answers(space.outside(POD_RESOURCES))

        until(ready, f"the node {name} to be Ready", limit_seconds=90)
        yield process
    finally:
        process.kill()


def _is_ready(plane: ControlPlane, name: str) -> bool:
    path = f"/api/v1/nodes/{name}"
    if not plane.api.exists(path):
        return False
    node = plane.api.get(path)
    conditions = {one["type"]: one["status"] for one in node["status"].get("conditions", ())}
    return conditions.get("Ready") == "True" and not node["spec"].get("taints")


def _answers(socket: Path) -> bool:
    try:
        podresources.list_pods(socket)
    except grpc.RpcError:
        return False
    return True
