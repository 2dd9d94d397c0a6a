"""containerd with runc, with all its folders in the scratch folder, and a bridge for pods."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import platform
import socket
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.process import Process
from harness.waiters import until

IMAGE_REPOSITORY = "localhost/numaplace"
IMAGE_TAG = "e2e"
IMAGE = f"{IMAGE_REPOSITORY}:{IMAGE_TAG}"
_STATE = Path("/run/containerd")
_SANDBOX_IMAGE = "localhost/pause:e2e"

_NETWORK = {
    "cniVersion": "1.0.0",
    "name": "pods",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": True,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": "10.88.0.0/24", "rangeStart": "10.88.0.10"}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }
    ],
}

_CONFIGURATION = """
version = 4
root = "{folder}/root"
state = "{state}"

[plugins.'io.containerd.cri.v1.images']
  snapshotter = "{snapshotter}"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = "{sandbox}"

[plugins.'io.containerd.cri.v1.runtime']
  # Only a process with CAP_SYS_RESOURCE may lower its OOM score.
  restrict_oom_score_adj = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "{folder}/net"
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    runtime_path = "{shim}"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      BinaryName = "{runc}"
      SystemdCgroup = false
"""


class Containerd:
    """A running containerd."""

    def __init__(self, binaries: Path, socket_path: Path) -> None:
        self._binaries = binaries
        self.socket = socket_path

    def ctr(self, *arguments: str) -> str:
        command = [
            str(self._binaries / "ctr"),
            "--address",
            str(self.socket),
            "--namespace",
            "k8s.io",
            *arguments,
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout


@contextlib.contextmanager
def containerd(binaries: Path, folder: Path, *, image: Path, pause: Path) -> Iterator[Containerd]:
    """Run containerd until the block ends, with the image in it; ``pause`` is what sandboxes run."""
    (folder / "net").mkdir(parents=True)
    (folder / "net/10-pods.conflist").write_text(json.dumps(_NETWORK))
    socket_path = _STATE / "containerd.sock"
    (folder / "config.toml").write_text(
        _CONFIGURATION.format(
            folder=folder,
            state=_STATE,
            snapshotter=os.environ.get("NUMAPLACE_CLUSTER_SNAPSHOTTER", "overlayfs"),
            sandbox=_SANDBOX_IMAGE,
            shim=binaries / "containerd-shim-runc-v2",
            runc="/usr/sbin/runc",
        )
    )
    log = folder / "containerd.log"
    process = Process([str(binaries / "containerd"), "--config", str(folder / "config.toml")], log)
    try:
        until(lambda: _accepts(socket_path), "containerd to answer", limit_seconds=60)
        runtime = Containerd(binaries, socket_path)
        _write_image(folder / "pause.tar", _SANDBOX_IMAGE, pause)
        for archive in (folder / "pause.tar", image):
            runtime.ctr("images", "import", str(archive))
        yield runtime
    finally:
        process.kill()


def _write_image(archive: Path, name: str, program: Path) -> None:
    """Write an image (in docker's format) of one static program."""
    layer = _tar({"pause": program.read_bytes()})
    digest = f"sha256:{hashlib.sha256(layer).hexdigest()}"
    config = {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()],
        "os": "linux",
        "config": {"Entrypoint": ["/pause"]},
        "rootfs": {"type": "layers", "diff_ids": [digest]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    files = {"manifest.json": json.dumps(manifest), "config.json": json.dumps(config)}
    archive.write_bytes(_tar({"layer.tar": layer} | {name: text.encode() for name, text in files.items()}))


def _tar(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mode = 0o755
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _accepts(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0
