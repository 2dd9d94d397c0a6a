"""Commands as an administrator types them: a shell with kubectl, helm and the kubectl plugin on its PATH."""

from __future__ import annotations

import os
import shutil
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
    """Runs command lines in ``folder``, at first the repository's root."""

    def __init__(self, site: Site, folder: Path = REPOSITORY) -> None:
        self._folder = folder
        kubectl = site._kubectl
        tools = [str(kubectl.parent), str(REPOSITORY / "kubectl-plugin")]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("NUMAPLACE_")}
        self._env = {
            **kept,
            "KUBECONFIG": site._env["KUBECONFIG"],
            "PATH": os.pathsep.join([*tools, os.environ["PATH"]]),
        }

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

    def has(self, program: str) -> bool:
        return shutil.which(program, path=self._env["PATH"]) is not None
