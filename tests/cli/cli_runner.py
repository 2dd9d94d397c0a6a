"""Runs the command line with its output kept, on a machine of two NUMA nodes."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path

from numaplace.cli.console import Console
from numaplace.cli.main import main


class Terminal(io.StringIO):
    """An output that says of itself that it is a terminal."""

    def isatty(self) -> bool:
        return True


@dataclass
class Result:
    code: int
    out: str
    err: str


@dataclass
class Runner:
    out: io.StringIO = field(default_factory=io.StringIO)
    env: dict[str, str] = field(default_factory=dict)

    def __call__(self, *argv: str) -> Result:
        console = Console(out=self.out, err=io.StringIO(), env=self.env)
        code = main(argv, console)
        return Result(code, self.out.getvalue(), console.err.getvalue())


def make_sysfs(root: Path) -> Path:
    """Two NUMA nodes with four CPUs each."""
    nodes = root / "sys/devices/system/node"
    for node, cpus in ((0, "0-3"), (1, "4-7")):
        folder = nodes / f"node{node}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(f"{cpus}\n")
        (folder / "distance").write_text("10 20\n" if node == 0 else "20 10\n")
    (nodes / "online").write_text("0-1\n")
    return root / "sys"
