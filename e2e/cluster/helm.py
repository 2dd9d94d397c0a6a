"""The real helm, on the chart of this repository."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import yaml

CHART = Path(__file__).resolve().parents[2] / "charts/numaplace"


class Helm:
    """Installs, upgrades and removes one release."""

    def __init__(self, binary: Path, kubeconfig: Path, folder: Path, *, release: str, namespace: str) -> None:
        self.binary = binary
        self._folder = folder
        self._release = [release, "--namespace", namespace]
        self.env = {**os.environ, "KUBECONFIG": str(kubeconfig)} | {
            f"HELM_{kind}_HOME": str(folder / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")
        }
        folder.mkdir(parents=True)

    def install(self, values: Mapping[str, object]) -> str:
        return self._run("install", str(CHART), "--create-namespace", "--values", str(self._write(values)))

    def upgrade(self, values: Mapping[str, object], *settings: str) -> str:
        given = [part for setting in settings for part in ("--set", setting)]
        return self._run("upgrade", str(CHART), "--values", str(self._write(values)), *given)

    def uninstall(self) -> str:
        return self._run("uninstall", "--wait", "--timeout", "60s")

    def _write(self, values: Mapping[str, object]) -> Path:
        path = self._folder / "values.yaml"
        path.write_text(yaml.safe_dump(values))
        return path

    def _run(self, verb: str, *arguments: str) -> str:
        command = [str(self.binary), verb, *self._release, *arguments]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout
