"""Makes the simulated node's trees, before they are mounted over the machine's own. Called by node.sh.

The arguments are a folder, in which ``dev`` is a file system that takes device nodes, and the number of NUMA
nodes. Each has one CPU: containers are real, and the kernel refuses them CPUs that the machine does not have.
(A kubelet whose CPU manager hands out no CPUs may know of more.)
"""

from __future__ import annotations

import json
import os
import stat
import sys
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from harness.hardware import install
from harness.topology import SimulatedTopology

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
    topology = SimulatedTopology.uniform(numa_nodes, cpus_each=1, memory_gib_each=8)
    topology.write(root)
    hardware = install(root, topology)
    (root / "hardware.json").write_text(json.dumps({**asdict(hardware), "root": "/"}))
    # A container gets a device node only if the node has one: each of the cards' is one that does nothing.
    for path in sorted((root / "dev").rglob("*")):
        if path.is_file():
            path.unlink()
            _make_device(path, _NULL)
    for name, (major, minor) in _OWN_DEVICES.items():
        _make_device(root / "dev" / name, os.makedev(major, minor))
    # Looked for by the kubelet's machine information, and mounted over.
    for name in ("sys/fs/cgroup", "sys/block", "sys/class/net", "dev/pts", "dev/shm", "proc/driver"):
        (root / name).mkdir(parents=True, exist_ok=True)


main(Path(sys.argv[1]), int(sys.argv[2]))
