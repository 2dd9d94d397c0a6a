"""A cluster with our chart on it, and what tests ask about both."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster.anycluster import IMAGE_REPOSITORY, IMAGE_TAG, Cluster, Node
from cluster.api import Api, Json
from cluster.backend import ClusterNodes
from cluster.helm import Helm
from harness.flows import Placement, placement
from harness.hardware import SOURCES, Hardware
from harness.waiters import until

NAMESPACE = "numaplace"
RELEASE = "numaplace"
DAEMON_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_METRICS_PORT = 9477
_DAEMON_SETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"


class NodeSite(ClusterNodes):
    """One node: its pods, its cards, its daemon."""

    def __init__(self, api: Api, node: Node, kubectl: Callable[..., str]) -> None:
        super().__init__(api, [node])
        self.name = node.name
        self.hardware: Hardware = node.hardware
        self._device_plugins = node.device_plugins
        self._fetch = node.fetch
        self.kill = node.kill
        self.kubelet_with = node.kubelet_with
        self._kubectl = kubectl

    def placement(self) -> Placement:
        return placement(self, self.hardware.node_of)

    def has_all_devices(self) -> bool:
        known = self.allocatable()
        return all(known.get(name) == frozenset(devices) for name, devices in self.hardware.devices.items())

    def capacity(self) -> dict[str, str]:
        """What the node's status says can be allocated of our resources."""
        status: Mapping[str, Any] = self.api.get(f"/api/v1/nodes/{self.name}")["status"]
        return {name: str(status["allocatable"].get(name)) for name in self.hardware.devices}

    def kubelet_version(self) -> str:
        status = self.api.get(f"/api/v1/nodes/{self.name}")["status"]
        return str(status["nodeInfo"]["kubeletVersion"])

    def sockets(self) -> list[str]:
        """Names in the kubelet's folder of device-plugin sockets."""
        return [path.name for path in self._device_plugins.iterdir() if path.is_socket()]

    def daemon_pods(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self._daemon_pods()]

    def daemon_sets(self) -> set[str]:
        """The names of the DaemonSets that the node's daemon pods belong to."""
        return {pod["metadata"]["ownerReferences"][0]["name"] for pod in self._daemon_pods()}

    def _daemon_pods(self) -> list[Json]:
        return self.api.items(f"{DAEMON_PODS}?fieldSelector=spec.nodeName%3D{self.name}")

    def daemon_pod(self) -> str:
        """The name of the node's one daemon pod."""
        (pod,) = self.daemon_pods()
        return pod

    def execute(self, *command: str) -> str:
        """Run a command in the daemon's container."""
        return self._kubectl("exec", self.daemon_pod(), "--", *command)

    def daemon_container(self) -> str:
        """The id of the daemon's container at the container runtime."""
        (pod,) = self._daemon_pods()
        (status,) = pod["status"]["containerStatuses"]
        return str(status["containerID"]).removeprefix("containerd://")

    def daemon_log(self) -> list[Json]:
        """What the node's daemon has logged, line after line."""
        return [json.loads(line) for line in self._kubectl("logs", self.daemon_pod()).splitlines()]

    def decisions(self, pod: str) -> list[Json]:
        """The daemon's log of the decisions that it attributes to a pod."""
        lines = self.daemon_log()
        return [one for one in lines if one["event"] == "decision" and one["pod"] == f"default/{pod}"]

    def metrics_url(self) -> str:
        """Where the metrics of the daemon that runs now are."""
        (pod,) = self._daemon_pods()
        return f"http://{pod['status']['podIP']}:{_METRICS_PORT}/metrics"

    def metrics(self, url: str) -> dict[str, float]:
        """The daemon's metrics by series; without the API server."""
        lines = (line for line in self._fetch(url).splitlines() if not line.startswith("#"))
        return {series: float(value) for series, value in (line.rsplit(" ", 1) for line in lines)}


class Site:
    """A running cluster of two nodes. ``node`` is the first one, ``other`` the second, ``both`` either."""

    def __init__(self, cluster: Cluster, *, helm: Path, kubectl: Path, folder: Path) -> None:
        self.api = cluster.api
        self.api_server_away = cluster.api_server_away
        self.helm = Helm(helm, cluster.kubeconfig, folder / "helm", release=RELEASE, namespace=NAMESPACE)
        self.nodes = tuple(NodeSite(self.api, node, self.kubectl) for node in cluster.nodes)
        self.node, self.other = self.nodes
        self.both = ClusterNodes(self.api, cluster.nodes)
        self.kubectl_binary = kubectl
        self._env = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
        self._needed = cluster.values
        self._values: Mapping[str, object] | None = None

    def configure(
        self,
        strategy: str,
        *,
        node_configs: Sequence[Mapping[str, object]] = (),
        over: Mapping[str, object] | None = None,
    ) -> None:
        """Have the chart installed with this configuration, and wait until it is everywhere.

        ``over`` are values that go over our own.
        """
        values = merged(self.values(strategy), {"nodeConfigs": list(node_configs), **(over or {})})
        if self._values is None:
            self._install(values)
        elif values != self._values:
            self.helm.upgrade(values)
        self._values = values
        self.wait_rolled_out()

    def _install(self, values: Mapping[str, object]) -> None:
        labels = {"pod-security.kubernetes.io/enforce": "privileged"}
        metadata = {"name": NAMESPACE, "labels": labels}
        self.api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        self.helm.install(values)

    def uninstall(self) -> None:
        self.helm.uninstall()

    def values(self, strategy: str) -> dict[str, object]:
        """Return the chart's values for our image and all cards of the nodes."""
        return merged(chart_configuration(strategy), self._needed)

    def wait_rolled_out(self) -> None:
        """Wait until one current daemon pod is Ready on each node, and each kubelet has every device."""
        until(self._is_rolled_out, "the DaemonSets to be Ready", limit_seconds=120, detail=self._why)
        for node in self.nodes:
            until(
                node.has_all_devices,
                f"all devices at the kubelet of {node.name}",
                limit_seconds=30,
                detail=node.allocatable,
            )

    def _is_rolled_out(self) -> bool:
        daemon_sets = self.api.items(_DAEMON_SETS)
        ready = sum(one["status"].get("numberReady", 0) for one in daemon_sets)
        return (
            all(_is_current(one) for one in daemon_sets)
            and ready == len(self.nodes)
            and all(len(node.daemon_pods()) == 1 for node in self.nodes)
        )

    def _why(self) -> object:
        events = self.api.items(f"/api/v1/namespaces/{NAMESPACE}/events")
        return [
            *(f"{pod['metadata']['name']}: {_states(pod)}" for pod in self.api.items(DAEMON_PODS)),
            *sorted({event["message"] for event in events if event["type"] == "Warning"}),
        ]

    def kubectl(self, *arguments: str, limit_seconds: float = 60) -> str:
        """Run a kubectl command in the chart's namespace, as its administrator."""
        command = [str(self.kubectl_binary), "--namespace", NAMESPACE, *arguments]
        done = subprocess.run(
            command, env=self._env, capture_output=True, text=True, timeout=limit_seconds, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout


def chart_configuration(strategy: str) -> dict[str, object]:
    """Return the chart's values that are the same on every cluster."""
    # Control plane, nodes and tests share the machine's cores: with the default deadline, a List that
    # comes late may split a container over two NUMA nodes. Events come with the next poll.
    config = {
        "strategy": strategy,
        "deadline": "1s",
        "pollInterval": "2s",
        "resources": [{"name": name, **source} for name, source in SOURCES.items()],
    }
    image = {"repository": IMAGE_REPOSITORY, "tag": IMAGE_TAG, "pullPolicy": "Never"}
    return {"image": image, "config": config}


def _states(pod: Json) -> list[Json]:
    return [status["state"] for status in pod["status"].get("containerStatuses", ())]


def _is_current(daemon_set: Json) -> bool:
    status = daemon_set["status"]
    wanted = status.get("desiredNumberScheduled", 0)
    return (
        status.get("observedGeneration") == daemon_set["metadata"]["generation"]
        and status.get("updatedNumberScheduled", 0) == wanted
        and status.get("numberReady", 0) == wanted
    )


def merged(values: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two values files as Helm does: mappings are merged, anything else is replaced."""
    found = dict(values)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(found.get(key), Mapping)
        found[key] = merged(found[key], value) if both else value
    return found
