"""containerd and a kubelet in the guest: a ``Backend`` (harness.backend) for static pods."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, TypeVar

import grpc
import yaml
from guest.boot import Guest
from guest.client import RemoteProcess
from guest.keeper import log_path
from guest.machine import KUBELET_PORT, POD_RESOURCES_PORT
from harness import podresources
from harness.image import one_program_image
from harness.kubelet import KubeletOptions
from harness.podresources import Held
from harness.pods import Pod
from harness.waiters import until

T = TypeVar("T")

NODE_NAME = "n1"
STATE = "/var/lib/kubelet"
MANIFESTS = "/run/manifests"
CONFIGURATION = "/run/kubelet.yaml"
ASK_SECONDS = 0.5
PATIENCE_SECONDS = 60
WORKLOAD = "localhost/probe:e2e"
_RUNTIME_SOCKET = "/run/containerd/containerd.sock"

_CONTAINERD = f"""
version = 4
root = "/var/lib/containerd/root"
state = "/run/containerd"

[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "{WORKLOAD}"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
    BinaryName = "/payload/bin/runc"
"""


@dataclass(frozen=True, slots=True)
class Rejected:
    """Why the kubelet refused a pod."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Inside:
    """What a container sees of itself (agent/probe.go)."""

    env: Mapping[str, str]
    devices: tuple[str, ...]
    cpus: str
    memory: str
    vfio: Mapping[str, Mapping[str, Any]]
    opened: Mapping[str, str]


class Runtime:
    """containerd in the guest."""

    def __init__(self, guest: Guest) -> None:
        self._agent = guest.agent
        self._process: RemoteProcess | None = None

    def start(self, workload: Path) -> None:
        """Start it; ``workload`` is the program that containers and sandboxes run."""
        agent = self._agent
        agent.write("/etc/containerd.toml", _CONTAINERD)
        command = ["/payload/bin/containerd", "--config", "/etc/containerd.toml"]
        self._process = agent.start(command, log=log_path("containerd"))
        until(
            self._answers,
            "containerd to answer",
            limit_seconds=90,
            every_seconds=0.5,
            detail=self._process.tail,
        )
        agent.write(
            "/run/workload.tar", one_program_image(WORKLOAD, workload, entrypoint=("/agent", "probe"))
        )
        self.ctr("images", "import", "/run/workload.tar")

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.exit_code is None, f"containerd ended: {self._process.tail()}"
        return self._agent.attempt("test", "-S", _RUNTIME_SOCKET).code == 0

    def ctr(self, *arguments: str, seconds: float = 120) -> str:
        command = ("ctr", "--address", _RUNTIME_SOCKET, "--namespace", "k8s.io", *arguments)
        return self._agent.run(*command, seconds=seconds)


@dataclass
class GuestNode:
    """A kubelet in the guest, started with one set of options after the other."""

    guest: Guest
    options: KubeletOptions = field(default_factory=KubeletOptions)
    process: RemoteProcess | None = None
    _created: set[str] = field(default_factory=set)
    _statuses: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    _asked_at: float = -inf

    def start(self, options: KubeletOptions) -> None:
        """Start a kubelet that knows nothing of an earlier one's state."""
        agent = self.guest.agent
        agent.shell(
            f"mkdir -p {MANIFESTS} /run/volumeplugins; rm -f {STATE}/*_manager_state {log_path('kubelet')}"
        )
        self.options = options
        agent.write(CONFIGURATION, yaml.safe_dump(_configuration(options)))
        flags = {
            "--config": CONFIGURATION,
            "--hostname-override": NODE_NAME,
            "--node-ip": "10.0.2.15",
            "--v": 2,
        }
        command = ["/payload/bin/kubelet", *(f"{flag}={value}" for flag, value in flags.items())]
        self.process = agent.start(command, log=log_path("kubelet"))
        until(
            self._ready,
            "the kubelet to be ready",
            limit_seconds=120,
            every_seconds=0.5,
            detail=self.process.tail,
        )

    def stop(self) -> None:
        """End it; no pod may be left (``clear``)."""
        if self.process is not None:
            self.process.stop()
            self.process = None

    def _ready(self) -> bool:
        assert self.process is not None
        assert self.process.exit_code is None, f"the kubelet ended: {self.process.tail()}"
        try:
            podresources.list_pods(self._pod_resources)
            self._ask_pods()
        except (grpc.RpcError, OSError):
            return False
        return self.guest.agent.attempt("test", "-S", f"{STATE}/device-plugins/kubelet.sock").code == 0

    def create(self, pod: Pod) -> None:
        manifest: Any = pod.manifest()
        for container in [*manifest["spec"]["initContainers"], *manifest["spec"]["containers"]]:
            container |= {"image": WORKLOAD, "command": ["/agent", "probe"]}
        self.create_manifest(pod.name, manifest)

    def create_manifest(self, name: str, manifest: Mapping[str, object]) -> None:
        """Hand over a pod as it is."""
        self._created.add(name)
        self.guest.agent.write(f"{MANIFESTS}/{name}.json", json.dumps(manifest))

    def delete(self, name: str) -> None:
        self._created.discard(name)
        self.guest.agent.run("rm", "-f", f"{MANIFESTS}/{name}.json")

    def running(self, name: str) -> frozenset[str]:
        status = self._pods().get(f"{name}-{NODE_NAME}", {})
        states = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
        return frozenset(one["name"] for one in states if "running" in one["state"])

    def rejected(self, name: str) -> Rejected | None:
        status = self._pods().get(f"{name}-{NODE_NAME}", {})
        if status.get("phase") != "Failed":
            return None
        return Rejected(str(status.get("reason")), str(status.get("message")))

    def _pods(self) -> Mapping[str, Mapping[str, Any]]:
        # Flows ask far more often than is good for a kubelet that is emulated, too.
        now = time.monotonic()
        if now >= self._asked_at + ASK_SECONDS:
            self._statuses = _patiently(self._ask_pods)
            self._asked_at = now
        return self._statuses

    def _ask_pods(self) -> dict[str, dict[str, Any]]:
        url = f"http://127.0.0.1:{self.guest.ports[KUBELET_PORT]}/pods"
        with urllib.request.urlopen(url, timeout=10) as reply:
            items = json.load(reply).get("items") or []
        return {item["metadata"]["name"]: item.get("status", {}) for item in items}

    @property
    def _pod_resources(self) -> str:
        return f"127.0.0.1:{self.guest.ports[POD_RESOURCES_PORT]}"

    def held(self) -> dict[str, dict[str, Held]]:
        pods = _patiently(lambda: podresources.list_pods(self._pod_resources))
        return {name.removesuffix(f"-{NODE_NAME}"): held for name, held in pods.items()}

    def allocatable(self) -> dict[str, frozenset[str]]:
        """The healthy devices that the kubelet knows, per resource."""
        return _patiently(lambda: podresources.allocatable_devices(self._pod_resources))

    def numa_nodes(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """The NUMA nodes of each healthy device that the kubelet knows, per resource."""
        return _patiently(lambda: podresources.allocatable_numa_nodes(self._pod_resources))

    def given(self, pod: str, container: str) -> Inside:
        """What the container says that it sees."""
        pattern = f"/var/log/pods/default_{pod}-{NODE_NAME}_*/{container}/*.log"
        log = until(lambda: self.guest.agent.read(pattern), f"the report of {pod}", limit_seconds=120)
        # The container runtime's own format: time, stream, whether the line is complete, line.
        text = "".join(line.split(" ", 3)[3] for line in log.splitlines())
        return Inside(**json.loads(text))

    def clear(self) -> None:
        """Delete every pod and wait until the kubelet has forgotten them."""
        for name in tuple(self._created):
            self.delete(name)
        if self.process is None or self.process.exit_code is not None:
            return
        until(
            lambda: not _patiently(self._ask_pods) and not self.held(),
            "the kubelet to forget all pods",
            limit_seconds=120,
            every_seconds=0.5,
            detail=lambda: sorted(self._pods()),
        )


def _patiently(ask: Callable[[], T]) -> T:
    """Ask a kubelet that runs; it may take longer than the call's own limit, when all is busy."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return ask()
        except (grpc.RpcError, OSError):
            if time.monotonic() > deadline:
                raise
            time.sleep(ASK_SECONDS)


def _configuration(options: KubeletOptions) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{_RUNTIME_SOCKET}",
        "staticPodPath": MANIFESTS,
        "volumePluginDir": "/run/volumeplugins",
        "registerNode": False,
        "readOnlyPort": KUBELET_PORT,
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "failSwapOn": False,
        "cgroupDriver": "cgroupfs",
        "enforceNodeAllocatable": ["pods"],
        "makeIPTablesUtilChains": False,
        "localStorageCapacityIsolation": False,
        "fileCheckFrequency": "1s",
        "syncFrequency": "2s",
        "resolvConf": "",
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
        },
        **options.configuration(),
    }
