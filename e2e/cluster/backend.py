"""Nodes of the real cluster: a ``Backend`` (harness.backend) for pods, and Deployments besides."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cluster.anycluster import IMAGE, Node
from cluster.api import Api, Json
from harness import podresources
from harness.podresources import Held
from harness.pods import Pod
from harness.waiters import until

_PODS = "/api/v1/namespaces/default/pods"
_DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"

# What the container itself sees goes to its log.
_TELL = (
    'grep _allowed_list: /proc/self/status; env; find /dev -type c; echo "end of report"; exec sleep infinity'
)
_END = "end of report"


@dataclass(frozen=True, slots=True)
class Inside:
    """What a container sees of itself: environment variables, character devices.

    Its CPUs and the NUMA nodes of its memory are lists, as the kernel writes them.
    """

    envs: Mapping[str, str]
    devices: frozenset[str]
    cpus: str
    memory_nodes: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """Why the kubelet refused a pod."""

    reason: str
    message: str


class ClusterNodes:
    """Pods of the namespace ``default`` on these nodes; of several, the scheduler chooses one."""

    def __init__(self, api: Api, nodes: Sequence[Node]) -> None:
        self.api = api
        self._nodes = tuple(nodes)

    def create(self, pod: Pod) -> None:
        self.api.create(_PODS, self._manifest(pod))

    def create_static(self, pod: Pod) -> None:
        """Give the pod to the kubelet itself, without the API server. Its name gets the node's appended."""
        (node,) = self._nodes
        manifest = self._manifest(pod)
        unfinished = node.manifests / f".{pod.name}"
        unfinished.write_text(json.dumps(manifest))
        unfinished.replace(node.manifests / f"{pod.name}.json")

    def delete_static(self, pod: Pod) -> None:
        (node,) = self._nodes
        (node.manifests / f"{pod.name}.json").unlink(missing_ok=True)

    def static_name(self, pod: Pod) -> str:
        """Return the name by which kubelet and API server know a static pod."""
        (node,) = self._nodes
        return f"{pod.name}-{node.name}"

    def _manifest(self, pod: Pod) -> Json:
        manifest: Json = pod.manifest()
        spec = manifest["spec"]
        for container in [*spec["initContainers"], *spec["containers"]]:
            _run_here(container)
        if len(self._nodes) == 1:
            spec["nodeSelector"] = {"kubernetes.io/hostname": self._nodes[0].name}
        return manifest

    def delete(self, name: str) -> None:
        self.api.delete(f"{_PODS}/{name}")

    def running(self, name: str) -> frozenset[str]:
        status = self.api.get(f"{_PODS}/{name}")["status"]
        states = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
        return frozenset(one["name"] for one in states if "running" in one["state"])

    def rejected(self, name: str) -> Rejected | None:
        status = self.api.get(f"{_PODS}/{name}")["status"]
        if status.get("phase") != "Failed":
            return None
        return Rejected(str(status.get("reason")), str(status.get("message")))

    def held(self) -> dict[str, dict[str, Held]]:
        return {
            pod: held
            for node in self._nodes
            for pod, held in podresources.list_pods(node.pod_resources).items()
        }

    def allocatable(self) -> dict[str, frozenset[str]]:
        """The healthy devices that the kubelet knows, per resource."""
        (node,) = self._nodes
        return podresources.allocatable_devices(node.pod_resources)

    def given(self, pod: str, container: str) -> Inside:
        """What the container says that it sees."""
        log = until(lambda: self._report(pod, container), f"the report of {pod}")
        lines = log.splitlines()
        envs = dict(line.split("=", 1) for line in lines if re.match(r"\w[\w.\-]*=", line))
        cpus, memory_nodes = (
            next(line.split()[1] for line in lines if line.startswith(f"{name}_allowed_list:"))
            for name in ("Cpus", "Mems")
        )
        devices = frozenset(line for line in lines if line.startswith("/dev/"))
        return Inside(envs, devices, cpus, memory_nodes)

    def _report(self, pod: str, container: str) -> str | None:
        log = self.api.text(f"{_PODS}/{pod}/log?container={container}")
        return log if _END in log else None

    def event(self, pod: str, reason: str) -> Json | None:
        """The newest event about the pod with this reason."""
        fields = f"involvedObject.name%3D{pod},reason%3D{reason}"
        events = self.api.items(f"/api/v1/namespaces/default/events?fieldSelector={fields}")
        return events[-1] if events else None

    def deploy(self, name: str, limits: Mapping[str, str | int], *, replicas: int) -> None:
        """Make a Deployment, and wait until all its pods run."""
        spec = self._manifest(Pod.of(name, limits))["spec"]
        labels = {"app": name}
        body: Json = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }
        self.api.create(_DEPLOYMENTS, body)
        self.wait_scaled(name, replicas)

    def scale(self, name: str, replicas: int) -> None:
        """Change the number of pods; do not wait."""
        self.api.patch(f"{_DEPLOYMENTS}/{name}", {"spec": {"replicas": replicas}})

    def wait_scaled(self, name: str, replicas: int) -> None:
        """Wait until the Deployment has exactly these pods, all running, and none is about to end."""

        def scaled() -> bool:
            pods, running = self.pods_of(name), self.running_pods_of(name)
            return len(pods) == replicas and sorted(pods) == sorted(running) == sorted(self.held_by(name))

        until(
            scaled,
            f"{replicas} pods of {name}",
            limit_seconds=90,
            detail=lambda: [one["status"] for one in self._pods_of(name)],
        )

    def held_by(self, name: str) -> dict[str, dict[str, Held]]:
        """What the kubelet says that the Deployment's pods hold."""
        return {pod: held for pod, held in self.held().items() if pod.startswith(f"{name}-")}

    def pods_of(self, name: str) -> list[str]:
        """Names of the Deployment's pods, without those that have failed."""
        return [_name(pod) for pod in self._pods_of(name) if pod["status"].get("phase") != "Failed"]

    def refused_pods_of(self, name: str) -> dict[str, str]:
        """Name -> reason of the Deployment's pods that the kubelet refused."""
        failed = (pod for pod in self._pods_of(name) if pod["status"].get("phase") == "Failed")
        return {_name(pod): str(pod["status"].get("reason")) for pod in failed}

    def running_pods_of(self, name: str) -> list[str]:
        return [
            _name(pod)
            for pod in self._pods_of(name)
            if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
        ]

    def _pods_of(self, name: str) -> list[Json]:
        return self.api.items(f"{_PODS}?labelSelector=app%3D{name}")

    def clear(self) -> None:
        """Delete all Deployments and pods, and wait until the kubelet has none of them."""
        for deployment in self.api.items(_DEPLOYMENTS):
            self.api.delete(f"{_DEPLOYMENTS}/{_name(deployment)}")
        until(lambda: not self.api.items(_DEPLOYMENTS), "the Deployments to be gone")

        def gone() -> bool:
            pods = self.api.items(_PODS)
            for pod in pods:
                if "deletionTimestamp" not in pod["metadata"]:
                    self.api.delete(f"{_PODS}/{_name(pod)}")
            return not pods

        until(gone, "the pods to be gone", limit_seconds=60)


def _run_here(container: Json) -> None:
    container |= {"image": IMAGE, "command": ["sh", "-c", _TELL]}


def _name(item: Json) -> str:
    return str(item["metadata"]["name"])
