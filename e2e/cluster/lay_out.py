"""Makes the simulated node's trees, before they are mounted over the machine's own. Called by node.sh.

The arguments are a folder, in which ``dev`` is a file system that takes device nodes, and the number of NUMA
nodes.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from cluster.trees import device_nodes, simulate

_NULL = os.makedev(1, 3)
# Every machine has these. The numbers are the kernel's (Documentation/admin-guide/devices.txt).
_OWN_DEVICES = {
    "null": (1, 3),
    "zero": (1, 5),
    "full": (1, 7),
    "random": (1, 8),
    "urandom": (1, 9),
    "tty": (5, 0),
    "kmsg": (1, 11),
}


def _make_device(path: Path, device: int) -> None:
    os.mknod(path, 0o666 | stat.S_IFCHR, device)
    path.chmod(0o666)


def main(root: Path, numa_nodes: int) -> None:
    simulate(root, numa_nodes)
    # A container gets a device node only if the node has one: each of the cards' is one that does nothing.
    for name in device_nodes(root):
        path = root / name.removeprefix("/")
        path.unlink()
        _make_device(path, _NULL)
    for name, (major, minor) in _OWN_DEVICES.items():
        _make_device(root / "dev" / name, os.makedev(major, minor))
    # Looked for by the kubelet's machine information, and mounted over.
    for name in ("sys/fs/cgroup", "sys/block", "sys/class/net", "dev/pts", "dev/shm", "proc/driver"):
        (root / name).mkdir(parents=True, exist_ok=True)


main(Path(sys.argv[1]), int(sys.argv[2]))
