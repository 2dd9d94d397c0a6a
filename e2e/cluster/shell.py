"""Commands as an administrator types them: a shell with kubectl, helm and the kubectl plugin on its PATH."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from cluster.testsite import Site

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Said:
    """What a command said."""

    out: str
    err: str


class Shell:
    """Runs command lines in ``folder``."""

    def __init__(self, site: Site, folder: Path) -> None:
        self._folder = folder
        tools = folder / "bin"
        tools.mkdir(exist_ok=True)
        for name, binary in (("kubectl", site.kubectl_binary), ("helm", site.helm.binary)):
            (tools / name).unlink(missing_ok=True)
            (tools / name).symlink_to(binary)
        kept = {name: value for name, value in site.helm.env.items() if not name.startswith("NUMAPLACE_")}
        path = [str(tools), str(REPOSITORY / "kubectl-plugin"), os.environ["PATH"]]
        self._env = {**kept, "PATH": os.pathsep.join(path)}

    def __call__(self, line: str, *, fails: int = 0) -> Said:
        """Run it; ``fails`` is the exit code that is expected."""
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            cwd=self._folder,
            env=self._env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == fails, f"{line}: {done.returncode}: {done.stdout}{done.stderr}"
        return Said(done.stdout, done.stderr)
