"""Simulated nodes, each in namespaces of its own (node.sh), with its container runtime and kubelet."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.process import Process
from harness.waiters import until

# Joins the node's groups, as the namespaces alone do not do, and becomes the command.
_JOIN = 'while read -r file; do echo 0 >"$file"; done </run/groups; exec "$@"'


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """What to make: ``number`` is from 1, unique, and part of addresses."""

    name: str
    number: int
    numa_nodes: int
    kubelet: Path

    @property
    def address(self) -> str:
        return f"10.88.0.1{self.number}"

    @property
    def pod_subnet(self) -> str:
        return f"10.88.{self.number}.0/24"


@dataclass(frozen=True, slots=True)
class Space:
    """The namespaces of a node, and the folder that all its scratch folders are in, seen from outside."""

    spec: NodeSpec
    folder: Path
    pid: int

    def command(self, *arguments: str) -> list[str]:
        """Return the command that runs another one inside."""
        namespaces = ("--mount", "--net", "--ipc", "--uts", "--cgroup")
        return ["nsenter", f"--target={self.pid}", *namespaces, "--", "sh", "-c", _JOIN, "join", *arguments]

    def outside(self, path: Path) -> Path:
        """Return where a path of the node's ``/var/lib`` or ``/var/log`` is for us."""
        return self.folder / path.relative_to("/var")


@contextlib.contextmanager
def space(spec: NodeSpec, scratch: Path) -> Iterator[Space]:
    """Make a node's namespaces and trees; nothing runs in them yet."""
    folder = scratch / spec.name
    folder.mkdir()
    script = Path(__file__).with_name("node.sh")
    command = [str(script), str(scratch), spec.name, str(spec.number), str(spec.numa_nodes)]
    log = folder / "node.log"
    process = Process(command, log)
    try:

        def ready() -> bool:
            assert process.exit_code is None, f"node {spec.name}: {log.read_text()}"
            return (folder / "ready").exists()

        until(ready, f"the namespaces of {spec.name}", limit_seconds=30)
        yield Space(spec, folder, process.pid)
    finally:
        process.kill()
