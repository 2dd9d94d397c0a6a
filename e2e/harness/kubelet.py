"""A real kubelet without an API server, on a simulated node.

It runs in a mount namespace of its own, in which made-up folders lie over the machine's: the NUMA
topology, the memory, kernel tunables (which a kubelet sets), and ``/var/lib`` and ``/var/log`` (in
which it writes). The rest of the machine is read-only there: a kubelet is root, and deletes and
creates what its configuration and its runtime make it believe is its own. Its sockets are visible
outside, in the scratch folder. The namespace goes with the kubelet, and with it every mount.
"""

from __future__ import annotations

import json
import socket
import ssl
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import yaml

from harness import podresources
from harness.process import Process
from harness.topology import KERNEL_TUNABLES, SimulatedTopology
from harness.waiters import until

NODE_NAME = "n1"
RESERVED_CPUS = "0"

# Arguments: the scratch folder, pairs of source and target up to "--", then the command.
_MOUNT_AND_EXEC = """
set -e
mount --bind "$1" "$1"
shift
while [ "$1" != -- ]; do mount --bind "$1" "$2"; shift 2; done
shift
# As on a host, where systemd shares all mounts. Otherwise the kubelet bind-mounts its folder over itself at
# its start, in a race with its own PodResources socket, which is renamed there ("invalid cross-device link").
mkdir -p /var/lib/kubelet
mount --bind /var/lib/kubelet /var/lib/kubelet
mount --make-rshared /var/lib/kubelet
for point in / /dev /run /etc /home /root /usr /var; do
    if mountpoint --quiet "$point"; then mount --options remount,bind,ro "$point"; fi
done
exec "$@"
"""


@dataclass(frozen=True, slots=True)
class KubeletOptions:
    """The settings that matter for placement; ``extra`` are further KubeletConfiguration keys."""

    topology_manager_policy: str = "none"
    topology_manager_scope: str = "container"
    static_cpu_manager: bool = False
    static_memory_manager: bool = False
    extra: Mapping[str, object] = field(default_factory=dict)

    def configuration(self) -> dict[str, object]:
        settings: dict[str, object] = {
            "topologyManagerPolicy": self.topology_manager_policy,
            "topologyManagerScope": self.topology_manager_scope,
            "cpuManagerPolicy": "static" if self.static_cpu_manager else "none",
            "reservedSystemCPUs": RESERVED_CPUS,
        }
        if self.static_memory_manager:
            # The kubelet refuses to start unless this is system reserved + hard eviction threshold.
            settings |= {
                "memoryManagerPolicy": "Static",
                "systemReserved": {"memory": "1Gi"},
                "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1124Mi"}}],
            }
        return settings | dict(self.extra)


class Kubelet:
    """One kubelet. ``folder`` holds all that it reads and writes; it may be started again and again."""

    def __init__(
        self,
        binary: Path,
        folder: Path,
        *,
        topology: SimulatedTopology,
        runtime_socket: Path,
        options: KubeletOptions,
    ) -> None:
        self._binary = binary
        self._folder = folder
        self.options = options
        self._host = folder / "host"
        self._port = _free_port()
        self._process: Process | None = None
        self.log = folder / "kubelet.log"
        self.manifests = folder / "manifests"
        state = folder / "lib/kubelet"
        self.device_plugins = state / "device-plugins"
        self.registration_socket = self.device_plugins / "kubelet.sock"
        self.pod_resources_socket = state / "pod-resources/kubelet.sock"
        for path in (state, folder / "log", self.manifests, self._host):
            path.mkdir(parents=True, exist_ok=True)
        topology.write(self._host)
        self.config_file = folder / "kubelet.yaml"
        self.config_file.write_text(yaml.safe_dump(self._configuration(runtime_socket)))

    def _configuration(self, runtime_socket: Path) -> dict[str, object]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": f"unix://{runtime_socket}",
            "staticPodPath": str(self.manifests),
            "podLogsDir": str(self._folder / "podlogs"),
            "volumePluginDir": str(self._folder / "volumeplugins"),
            "registerNode": False,
            "address": "127.0.0.1",
            "port": self._port,
            "readOnlyPort": 0,
            "healthzPort": 0,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "failCgroupV1": False,
            "failSwapOn": False,
            "cgroupDriver": "cgroupfs",
            "cgroupsPerQOS": False,
            "enforceNodeAllocatable": [],
            "makeIPTablesUtilChains": False,
            "localStorageCapacityIsolation": False,
            "maxPods": 500,
            "fileCheckFrequency": "1s",
            "syncFrequency": "2s",
            "evictionHard": {
                "memory.available": "100Mi",
                "nodefs.available": "0%",
                "nodefs.inodesFree": "0%",
                "imagefs.available": "0%",
            },
            **self.options.configuration(),
        }

    def _mounts(self) -> list[tuple[Path, str]]:
        host = self._host
        return [
            (host / "sys/devices/system/node", "/sys/devices/system/node"),
            (host / "sys/devices/system/cpu", "/sys/devices/system/cpu"),
            (host / "sys/kernel/mm/hugepages", "/sys/kernel/mm/hugepages"),
            (host / "proc/meminfo", "/proc/meminfo"),
            (host / "proc/cpuinfo", "/proc/cpuinfo"),
            *((host / "proc/sys" / name, f"/proc/sys/{name}") for name in KERNEL_TUNABLES),
            (self._folder / "log", "/var/log"),
            (self._folder / "lib", "/var/lib"),
        ]

    def start(self) -> None:
        """Start it and wait until it takes registrations and answers PodResources."""
        # The binary may lie in a folder that a mount hides.
        binary = self._folder / "kubelet"
        binary.touch()
        mounts = [(self._binary, str(binary)), *self._mounts()]
        pairs = [str(part) for pair in mounts for part in pair]
        enter = [
            "unshare",
            "--mount",
            "bash",
            "-c",
            _MOUNT_AND_EXEC,
            "mounts",
            str(self._folder),
            *pairs,
            "--",
        ]
        flags = {
            "--config": self.config_file,
            "--root-dir": "/var/lib/kubelet",
            "--cert-dir": self._folder / "pki",
            "--hostname-override": NODE_NAME,
            "--v": 4,
        }
        command = [str(binary), *(f"{flag}={value}" for flag, value in flags.items())]
        self._process = Process([*enter, *command], self.log)
        until(self._ready, "the kubelet to be ready", limit_seconds=60, detail=self.tail)

    def _ready(self) -> bool:
        assert self._process is not None
        assert self._process.exit_code is None, f"the kubelet ended: {self.tail()}"
        try:
            podresources.list_pods(self.pod_resources_socket)
            self.pods()
        except (grpc.RpcError, OSError):
            return False
        return _accepts(self.registration_socket)

    def stop(self) -> None:
        """End it (SIGTERM); pods stay."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def kill(self) -> None:
        """End it (SIGKILL); pods stay."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def pods(self) -> dict[str, dict[str, object]]:
        """Return pod name -> status, as the kubelet's own /pods page says."""
        return {item["metadata"]["name"]: item.get("status", {}) for item in self.pod_objects()}

    def pod_objects(self) -> list[dict[str, Any]]:
        """Return the pods of the kubelet's own /pods page, whole."""
        url = f"https://127.0.0.1:{self._port}/pods"
        with urllib.request.urlopen(url, timeout=5, context=_UNVERIFIED) as reply:
            return json.load(reply).get("items") or []

    def tail(self, lines: int = 15) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def _unverified_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


_UNVERIFIED = _unverified_context()


def _accepts(path: Path) -> bool:
    # A socket file that a killed kubelet left refuses connections.
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
