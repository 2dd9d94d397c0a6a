"""The cluster that kind makes in docker: other processes around the same kubelets, for the same tests."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml
from cluster.anycluster import KUBELET_CONFIGURATION, Cluster, Node
from cluster.api import Api, ApiError
from cluster.kubelet import answers, forget_policies
from cluster.trees import NUMA_NODES, device_nodes, simulate, simulated_hardware
from harness.waiters import until

NAME = "numaplace-e2e"
CONFIGURATION = Path(__file__).resolve().parents[1] / "kind/cluster.yaml"
_NODES = {"n1": f"{NAME}-worker", "n2": f"{NAME}-worker2"}
_API_SERVER = f"{NAME}-control-plane"
_KUBELET = Path("var/lib/kubelet")
_MANIFEST = "/etc/kubernetes/manifests/kube-apiserver.yaml"
_ASIDE = "/etc/kubernetes/kube-apiserver.yaml"

# On the node. Containers get a device node only if the node has one: these do nothing. Procfs takes no new
# folder, so that the one that it has is covered.
EQUIP = """
mount --bind /simulated/proc/driver /proc/driver
mkdir -p /etc/kubernetes/manifests
while read -r path; do mkdir -p "${path%/*}"; [ -e "$path" ] || mknod -m 666 "$path" c 1 3; done
"""

_KILL = ("ctr", "--namespace=k8s.io", "tasks", "kill", "--signal", "SIGKILL")
_TREES = ("bus", "class", "devices", "kernel")


def chart_values() -> dict[str, object]:
    """Return the chart's values here: in the container, simulated trees lie over those of the machine."""
    volumes = [{"name": f"sys-{name}", "hostPath": {"path": f"/simulated/sys/{name}"}} for name in _TREES]
    mounts = [{"name": f"sys-{name}", "mountPath": f"/host/sys/{name}", "readOnly": True} for name in _TREES]
    return {
        "nodeSelector": {"example.com/simulated": "true"},
        "extraVolumes": volumes,
        "extraVolumeMounts": mounts,
    }


def write_trees(scratch: Path) -> None:
    """Write what ``cluster.yaml`` mounts into the nodes."""
    for name, numa_nodes in NUMA_NODES.items():
        simulate(scratch / name / "host", numa_nodes)


@contextlib.contextmanager
def kind_cluster(image: Path, scratch: Path) -> Iterator[Cluster]:
    """Run a kind cluster of two unlike workers until the block ends; ``image`` is an archive of docker's."""
    write_trees(scratch)
    kubeconfig = scratch / "kubeconfig"
    named = [f"--name={NAME}", f"--kubeconfig={kubeconfig}"]
    try:
        _run("kind", "create", "cluster", *named, f"--config={CONFIGURATION}", "--wait=180s", folder=scratch)
        _run("kind", "load", "image-archive", str(image), f"--name={NAME}")
        for name, container in _NODES.items():
            _equip(container, scratch / name / "host")
        api = Api(kubeconfig)
        yield Cluster(
            api=api,
            kubeconfig=kubeconfig,
            nodes=tuple(_node(container, scratch / name / "host") for name, container in _NODES.items()),
            api_server_away=lambda: _api_server_away(api),
            values=chart_values(),
        )
    finally:
        _run("kind", "delete", "cluster", *named)


def _equip(container: str, trees: Path) -> None:
    names = "".join(f"{name}\n" for name in device_nodes(trees))
    _run("docker", "exec", "--interactive", container, "sh", "-ec", EQUIP, text=names)


def _node(container: str, trees: Path) -> Node:
    # The node's files are seen through its first process: sockets work on this way, too.
    process = _run("docker", "inspect", "--format", "{{.State.Pid}}", container).strip()
    root = Path(f"/proc/{process}/root")
    return Node(
        name=container,
        hardware=simulated_hardware(trees),
        pod_resources=root / _KUBELET / "pod-resources/kubelet.sock",
        device_plugins=root / _KUBELET / "device-plugins",
        manifests=root / "etc/kubernetes/manifests",
        kill=lambda one: _in(container, *_KILL, one),
        kubelet_with=lambda settings: _kubelet_with(settings, container, root),
        fetch=lambda url: _fetch(container, url),
    )


def _fetch(container: str, url: str) -> str:
    try:
        return _in(container, "curl", "--silent", "--fail", url)
    except AssertionError as error:
        raise ConnectionError(url) from error


@contextlib.contextmanager
def _kubelet_with(settings: Mapping[str, object], container: str, root: Path) -> Iterator[None]:
    configuration = root / KUBELET_CONFIGURATION.removeprefix("/")
    before = configuration.read_text()
    _restart_kubelet(yaml.safe_dump(yaml.safe_load(before) | dict(settings)), container, root)
    try:
        yield
    finally:
        _restart_kubelet(before, container, root)


def _restart_kubelet(configuration: str, container: str, root: Path) -> None:
    _in(container, "systemctl", "stop", "kubelet")
    forget_policies(root / _KUBELET)
    (root / KUBELET_CONFIGURATION.removeprefix("/")).write_text(configuration)
    _in(container, "systemctl", "start", "kubelet")
    socket = root / _KUBELET / "pod-resources/kubelet.sock"
    until(lambda: answers(socket), f"the kubelet of {container}", limit_seconds=60)


@contextlib.contextmanager
def _api_server_away(api: Api) -> Iterator[None]:
    """Take away the manifest of the API server, a static pod; put it back when the block ends."""
    _in(_API_SERVER, "mv", _MANIFEST, _ASIDE)
    try:
        until(lambda: not _answers(api), "the API server to be away", limit_seconds=60)
        yield
    finally:
        _in(_API_SERVER, "mv", _ASIDE, _MANIFEST)
        until(lambda: _answers(api), "the API server to be ready again", limit_seconds=120)


def _answers(api: Api) -> bool:
    try:
        return api.text("/readyz") == "ok"
    except (OSError, ApiError):
        return False


def _in(container: str, *command: str) -> str:
    return _run("docker", "exec", container, *command)


def _run(*command: str, text: str = "", folder: Path | None = None) -> str:
    done = subprocess.run(
        command,
        input=text,
        cwd=folder,
        env={**os.environ, "KIND_CLUSTER_NAME": NAME},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout
