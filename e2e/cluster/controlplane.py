"""etcd, kube-apiserver, kube-controller-manager and kube-scheduler as processes of the tests."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml
from cluster.api import Api, ApiError
from harness.process import Process
from harness.waiters import until

ADDRESS = "10.88.0.1"
# The service "kubernetes", which pods use. Without a kube-proxy it is an address of the machine (machine.sh).
SERVICE_ADDRESS = "10.96.0.1"
SERVER = f"https://{SERVICE_ADDRESS}:443"
_ETCD = "http://127.0.0.1:2379"

_API_SERVER = "kube-apiserver"
_USERS = {
    "admin": ("admin", "system:masters"),
    "controller-manager": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
}


def _users(nodes: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return token -> user and groups. Each component has the rights that Kubernetes itself gives it."""
    return _USERS | {f"kubelet-{node}": (f"system:node:{node}", "system:nodes") for node in nodes}


class ControlPlane:
    """A running control plane. All its files are in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # The API server makes its own certificate, and puts into the file also what has signed it.
        self.authority = folder / "pki/apiserver.crt"
        self.api = Api(self.kubeconfig("admin"))
        self._commands: dict[str, list[str]] = {}
        self._running: dict[str, Process] = {}

    def kubeconfig(self, user: str) -> Path:
        return self.folder / f"{user}.kubeconfig"

    @contextlib.contextmanager
    def api_server_away(self) -> Iterator[None]:
        """Kill the API server, and start it again when the block ends."""
        self._running[_API_SERVER].kill()
        try:
            yield
        finally:
            self._start(_API_SERVER)
            until(self._answers, "the API server to be ready again", limit_seconds=90)

    def run(self, binary: Path, **flags: object) -> None:
        """Start a component."""
        given = [f"--{name.replace('_', '-')}={value}" for name, value in flags.items()]
        self._commands[binary.name] = [str(binary), *given]
        self._start(binary.name)

    def _start(self, name: str) -> None:
        self._running[name] = Process(self._commands[name], self.folder / f"{name}.log")

    def wait_ready(self) -> None:
        until(self._answers, "the API server to be ready", limit_seconds=90)

    def _answers(self) -> bool:
        for name, process in self._running.items():
            assert process.exit_code is None, f"{name} ended"
        try:
            return self.api.text("/readyz") == "ok"
        except (OSError, ApiError):
            return False

    def kill(self) -> None:
        for process in reversed(self._running.values()):
            process.kill()


@contextlib.contextmanager
def control_plane(
    binaries: Path, etcd: Path, folder: Path, *, nodes: Sequence[str]
) -> Iterator[ControlPlane]:
    """Run a control plane for nodes of these names until the block ends."""
    folder.mkdir(parents=True)
    plane = ControlPlane(folder)
    _write_credentials(plane, nodes)
    try:
        _start_servers(plane, binaries, etcd)
        _start_controllers(plane, binaries)
        until(
            lambda: plane.api.exists("/api/v1/namespaces/default/serviceaccounts/default"),
            "the controller manager to work",
            limit_seconds=60,
        )
        yield plane
    finally:
        plane.kill()


def _start_servers(plane: ControlPlane, binaries: Path, etcd: Path) -> None:
    folder = plane.folder
    plane.run(
        etcd,
        data_dir=folder / "etcd",
        listen_client_urls=_ETCD,
        advertise_client_urls=_ETCD,
        listen_peer_urls="http://127.0.0.1:2380",
        unsafe_no_fsync="true",
    )
    plane.run(
        binaries / _API_SERVER,
        etcd_servers=_ETCD,
        advertise_address=ADDRESS,
        secure_port=443,
        cert_dir=folder / "pki",
        token_auth_file=folder / "tokens.csv",
        authorization_mode="Node,RBAC",
        service_cluster_ip_range="10.96.0.0/24",
        service_account_issuer="https://kubernetes.default.svc",
        service_account_key_file=folder / "accounts.key",
        service_account_signing_key_file=folder / "accounts.key",
        kubelet_preferred_address_types="InternalIP",
        v=1,
    )
    plane.wait_ready()


def _start_controllers(plane: ControlPlane, binaries: Path) -> None:
    folder = plane.folder
    common = {"leader_elect": "false", "cert_dir": folder / "pki"}
    plane.run(
        binaries / "kube-controller-manager",
        kubeconfig=plane.kubeconfig("controller-manager"),
        use_service_account_credentials="true",
        service_account_private_key_file=folder / "accounts.key",
        root_ca_file=plane.authority,
        **common,
    )
    plane.run(binaries / "kube-scheduler", kubeconfig=plane.kubeconfig("scheduler"), **common)


def _write_credentials(plane: ControlPlane, nodes: Sequence[str]) -> None:
    folder, users = plane.folder, _users(nodes)
    lines = (f'{token},{user},{user},"{groups}"\n' for token, (user, groups) in users.items())
    (folder / "tokens.csv").write_text("".join(lines))
    for user in users:
        plane.kubeconfig(user).write_text(yaml.safe_dump(_kubeconfig(user, plane.authority)))
    key = str(folder / "accounts.key")
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)


def _kubeconfig(token: str, authority: Path) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "e2e", "cluster": {"server": SERVER, "certificate-authority": str(authority)}}],
        "users": [{"name": "user", "user": {"token": token}}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "user"}}],
        "current-context": "e2e",
    }
