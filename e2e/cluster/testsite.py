"""The cluster as a whole: control plane, runtime, kubelet, and the chart on it."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.api import Json
from cluster.backend import ClusterNode
from cluster.controlplane import ControlPlane, control_plane
from cluster.helm import Helm
from cluster.kubelet import NODE_NAME, kubelet
from cluster.runtime import IMAGE_REPOSITORY, IMAGE_TAG, containerd
from harness.flows import Placement, placement
from harness.hardware import SOURCES, Hardware
from harness.waiters import until

NAMESPACE = "numaplace"
RELEASE = "numaplace"


@dataclass(frozen=True, slots=True)
class Binaries:
    """What build.sh and image.sh have made."""

    kubelet: Path
    control_plane: Path
    etcd: Path
    containerd: Path
    pause: Path
    helm: Path
    image: Path


@dataclass(frozen=True, slots=True)
class Site:
    """A running cluster of one node."""

    plane: ControlPlane
    node: ClusterNode
    helm: Helm
    hardware: Hardware
    kubectl_binary: Path

    def values(self, strategy: str) -> dict[str, object]:
        """Return the chart's values for all cards of the node."""
        # Control plane, node and tests share the machine's cores: with the default deadline, a List that
        # comes late may split a container over two NUMA nodes.
        config = {
            "strategy": strategy,
            "deadline": "1s",
            "resources": [{"name": name, **source} for name, source in SOURCES.items()],
        }
        image = {"repository": IMAGE_REPOSITORY, "tag": IMAGE_TAG, "pullPolicy": "Never"}
        return {"image": image, "config": config}

    def daemon_pods(self) -> list[Json]:
        return self.plane.api.items(f"/api/v1/namespaces/{NAMESPACE}/pods")

    def daemon_pod(self) -> str:
        """The name of the one daemon pod."""
        (pod,) = self.daemon_pods()
        return str(pod["metadata"]["name"])

    def wait_rolled_out(self) -> None:
        """Wait until the DaemonSet's current pod is Ready, and the kubelet has every device."""
        until(self._is_rolled_out, "the DaemonSet to be Ready", limit_seconds=120, detail=self._why)
        until(
            self._has_all_devices,
            "all devices at the kubelet",
            limit_seconds=30,
            detail=self.node.allocatable,
        )

    def _is_rolled_out(self) -> bool:
        api = self.plane.api
        daemon_set = api.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/{RELEASE}")
        status = daemon_set["status"]
        return (
            status.get("observedGeneration") == daemon_set["metadata"]["generation"]
            and status.get("updatedNumberScheduled") == status.get("numberReady") == 1
            and len(self.daemon_pods()) == 1
        )

    def _has_all_devices(self) -> bool:
        known = self.node.allocatable()
        return all(known.get(name) == frozenset(devices) for name, devices in self.hardware.devices.items())

    def _why(self) -> object:
        events = self.plane.api.items(f"/api/v1/namespaces/{NAMESPACE}/events")
        return [
            *((pod["metadata"]["name"], pod["status"]) for pod in self.daemon_pods()),
            *(event["message"] for event in events),
        ]

    def capacity(self) -> dict[str, str]:
        """What the node's status says can be allocated of our resources."""
        allocatable: Mapping[str, Any] = self.plane.api.get(f"/api/v1/nodes/{NODE_NAME}")["status"][
            "allocatable"
        ]
        return {name: str(allocatable.get(name)) for name in self.hardware.devices}

    def kubectl(self, *arguments: str) -> str:
        """Run a kubectl command in the chart's namespace, as its administrator."""
        command = [str(self.kubectl_binary), "--namespace", NAMESPACE, *arguments]
        env = {**os.environ, "KUBECONFIG": str(self.plane.kubeconfig("admin"))}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def execute(self, *command: str) -> str:
        """Run a command in the daemon's container."""
        return self.kubectl("exec", f"ds/{RELEASE}", "--", *command)

    def daemon_log(self) -> str:
        return self.kubectl("logs", f"ds/{RELEASE}", "--tail", "20")

    def placement(self) -> Placement:
        return placement(self.node, self.hardware.node_of)


@contextlib.contextmanager
def site(binaries: Binaries, scratch: Path, *, hardware: Hardware) -> Iterator[Site]:
    """Run the cluster until the block ends. The chart is not installed yet."""
    with (
        control_plane(binaries.control_plane, binaries.etcd, scratch / "plane") as plane,
        containerd(
            binaries.containerd, scratch / "containerd", image=binaries.image, pause=binaries.pause
        ) as runtime,
        kubelet(binaries.kubelet, scratch / "kubelet", plane=plane, runtime_socket=runtime.socket),
    ):
        helm = Helm(
            binaries.helm,
            plane.kubeconfig("admin"),
            scratch / "helm",
            release=RELEASE,
            namespace=NAMESPACE,
        )
        yield Site(plane, ClusterNode(plane.api), helm, hardware, binaries.control_plane / "kubectl")
