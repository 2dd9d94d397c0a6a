"""etcd, kube-apiserver, kube-controller-manager and kube-scheduler as processes of the tests."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml
from cluster.api import Api, ApiError
from harness.process import Process
from harness.waiters import until

NODE_ADDRESS = "10.88.0.1"
# The service "kubernetes", which pods use. Without a kube-proxy it is an address of the node (node.sh).
SERVICE_ADDRESS = "10.96.0.1"
SERVER = f"https://{SERVICE_ADDRESS}:443"
_ETCD = "http://127.0.0.1:2379"

# Token -> user and groups. Each component has the rights that Kubernetes itself gives it (RBAC, Node).
_USERS = {
    "admin": ("admin", "system:masters"),
    "controller-manager": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "kubelet": ("system:node:n1", "system:nodes"),
}


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """A running control plane."""

    api: Api
    folder: Path

    def kubeconfig(self, user: str) -> Path:
        return self.folder / f"{user}.kubeconfig"


@contextlib.contextmanager
def control_plane(binaries: Path, etcd: Path, folder: Path) -> Iterator[ControlPlane]:
    """Run a control plane until the block ends."""
    folder.mkdir(parents=True)
    _write_credentials(folder)
    # The API server makes its own certificate, and puts into the file also what has signed it.
    authority = folder / "pki/apiserver.crt"
    running: dict[str, Process] = {}
    with contextlib.ExitStack() as stack:

        def run(name: str, binary: Path, **flags: object) -> None:
            log = folder / f"{name}.log"
            given = [f"--{name.replace('_', '-')}={value}" for name, value in flags.items()]
            process = Process([str(binary), *given], log)
            stack.callback(process.kill)
            running[name] = process

        run(
            "etcd",
            etcd,
            data_dir=folder / "etcd",
            listen_client_urls=_ETCD,
            advertise_client_urls=_ETCD,
            listen_peer_urls="http://127.0.0.1:2380",
            unsafe_no_fsync="true",
        )
        run(
            "kube-apiserver",
            binaries / "kube-apiserver",
            etcd_servers=_ETCD,
            advertise_address=NODE_ADDRESS,
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
        plane = ControlPlane(Api(SERVER, "admin", authority), folder)
        until(lambda: _answers(plane.api, running), "the API server to be ready", limit_seconds=90)
        for user, binary in (
            ("controller-manager", "kube-controller-manager"),
            ("scheduler", "kube-scheduler"),
        ):
            flags: dict[str, object] = {
                "kubeconfig": plane.kubeconfig(user),
                "leader_elect": "false",
                "cert_dir": folder / "pki",
            }
            if user == "controller-manager":
                flags |= {
                    "use_service_account_credentials": "true",
                    "service_account_private_key_file": folder / "accounts.key",
                    "root_ca_file": authority,
                }
            run(binary, binaries / binary, **flags)
        until(
            lambda: plane.api.exists("/api/v1/namespaces/default/serviceaccounts/default"),
            "the controller manager to work",
            limit_seconds=60,
        )
        yield plane


def _write_credentials(folder: Path) -> None:
    lines = (f'{token},{user},{user},"{groups}"\n' for token, (user, groups) in _USERS.items())
    (folder / "tokens.csv").write_text("".join(lines))
    for user in _USERS:
        (folder / f"{user}.kubeconfig").write_text(
            yaml.safe_dump(_kubeconfig(user, folder / "pki/apiserver.crt"))
        )
    subprocess.run(
        ["openssl", "genrsa", "-out", str(folder / "accounts.key"), "2048"], check=True, capture_output=True
    )


def _kubeconfig(token: str, authority: Path) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "e2e", "cluster": {"server": SERVER, "certificate-authority": str(authority)}}],
        "users": [{"name": "user", "user": {"token": token}}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "user"}}],
        "current-context": "e2e",
    }


def _answers(api: Api, running: Mapping[str, Process]) -> bool:
    for name, process in running.items():
        assert process.exit_code is None, f"{name} ended"
    try:
        return api.text("/readyz") == "ok"
    except (OSError, ApiError):
        return False
