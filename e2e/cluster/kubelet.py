"""A kubelet that belongs to the cluster, in the namespaces that node.sh has made."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import grpc
import yaml
from cluster.controlplane import NODE_ADDRESS, ControlPlane
from harness import podresources
from harness.process import Process
from harness.waiters import until

NODE_NAME = "n1"
STATE = Path("/var/lib/kubelet")
DEVICE_PLUGINS = STATE / "device-plugins"
POD_RESOURCES = STATE / "pod-resources/kubelet.sock"


def _configuration(runtime_socket: Path, folder: Path) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{runtime_socket}",
        "volumePluginDir": str(folder / "volumeplugins"),
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
def kubelet(binary: Path, folder: Path, *, plane: ControlPlane, runtime_socket: Path) -> Iterator[Process]:
    """Run a kubelet until the block ends; when the block starts, its node is Ready."""
    folder.mkdir(parents=True)
    (folder / "kubelet.yaml").write_text(yaml.safe_dump(_configuration(runtime_socket, folder)))
    log = folder / "kubelet.log"
    flags = {
        "--config": folder / "kubelet.yaml",
        "--kubeconfig": plane.kubeconfig("kubelet"),
        "--root-dir": STATE,
        "--cert-dir": folder / "pki",
        "--hostname-override": NODE_NAME,
        "--node-ip": NODE_ADDRESS,
        "--v": 3,
    }
    process = Process([str(binary), *(f"{flag}={value}" for flag, value in flags.items())], log)
    try:

        def ready() -> bool:
            assert process.exit_code is None, f"the kubelet ended: {log.read_text()[-2000:]}"
            return _is_ready(plane) and _answers()

        until(ready, "the node to be Ready", limit_seconds=90)
        yield process
    finally:
        process.kill()


def _is_ready(plane: ControlPlane) -> bool:
    for node in plane.api.items("/api/v1/nodes"):
        conditions = {one["type"]: one["status"] for one in node["status"].get("conditions", ())}
        return conditions.get("Ready") == "True" and not node["spec"].get("taints")
    return False


def _answers() -> bool:
    try:
        podresources.list_pods(POD_RESOURCES)
    except grpc.RpcError:
        return False
    return True
