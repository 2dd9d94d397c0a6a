"""containerd with runc in the namespaces of a node, and a bridge for its pods."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from cluster.nodes import Space
from harness.image import one_program_image
from harness.process import Process
from harness.waiters import until

_STATE = Path("/run/containerd")
_SANDBOX_IMAGE = "localhost/pause:e2e"

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


def _network(subnet: str) -> dict[str, object]:
    address = {"type": "host-local", "ranges": [[{"subnet": subnet}]], "routes": [{"dst": "0.0.0.0/0"}]}
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipam": address}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}


class Containerd:
    """A running containerd; ``socket`` is its address inside the node."""

    socket = _STATE / "containerd.sock"

    def __init__(self, binaries: Path, space: Space) -> None:
        self._binaries = binaries
        self._space = space

    def answers(self) -> bool:
        return self._ctr("version").returncode == 0

    def import_image(self, archive: Path) -> None:
        done = self._ctr("images", "import", str(archive))
        assert done.returncode == 0, f"{archive}: {done.stdout}{done.stderr}"

    def kill(self, container: str) -> None:
        """End a container's process at once."""
        done = self._ctr("tasks", "kill", "--signal", "SIGKILL", container)
        assert done.returncode == 0, f"{container}: {done.stdout}{done.stderr}"

    def _ctr(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        ctr = str(self._binaries / "ctr")
        command = self._space.command(ctr, f"--address={self.socket}", "--namespace=k8s.io", *arguments)
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@contextlib.contextmanager
def containerd(binaries: Path, space: Space, *, images: Sequence[Path]) -> Iterator[Containerd]:
    """Run a node's containerd until the block ends, with these images in it."""
    folder = space.folder / "containerd"
    (folder / "net").mkdir(parents=True)
    (folder / "net/10-pods.conflist").write_text(json.dumps(_network(space.spec.pod_subnet)))
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
    command = space.command(str(binaries / "containerd"), "--config", str(folder / "config.toml"))
    process = Process(command, folder / "containerd.log")
    try:
        runtime = Containerd(binaries, space)
        until(runtime.answers, "containerd to answer", limit_seconds=60)
        for archive in images:
            runtime.import_image(archive)
        yield runtime
    finally:
        process.kill()


def write_sandbox_image(archive: Path, program: Path) -> None:
    """Write the image of what a pod's sandbox runs, one static program."""
    archive.write_bytes(one_program_image(_SANDBOX_IMAGE, program, entrypoint=("/pause",)))
