"""``numaplace run`` as a process, against a kubelet's sockets."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from harness.pages import get_page
from harness.process import Process
from harness.waiters import until

COMMAND = Path(sys.executable).parent / "numaplace"


class Daemon:
    """One configuration; started, killed and started again at will."""

    def __init__(
        self, folder: Path, config: Mapping[str, object], *, env: Mapping[str, str] | None = None
    ) -> None:
        self.config_file = folder / "numaplace.yaml"
        self._env = dict(env or {})
        self._port = _free_port()
        self._process: Process | None = None
        self.strategy = str(config.get("strategy", "none"))
        self.log = folder / "numaplace.log"
        folder.mkdir(parents=True, exist_ok=True)
        # Kubelet, runtime and tests share the machine's cores: with the default, a List that comes late may
        # split a container over two NUMA nodes. That is as documented, and not what these tests are about.
        self.configure(config)

    def configure(self, config: Mapping[str, object]) -> None:
        """Write another configuration; it counts from the next start, or reload, on."""
        document = {"deadline": "1s", **config, "http": {"address": f"127.0.0.1:{self._port}"}}
        self.config_file.write_text(yaml.safe_dump(document))

    def start(self) -> None:
        # Our own variables, and those of whoever runs the tests, would be taken as settings.
        env = {key: value for key, value in os.environ.items() if not key.startswith("NUMAPLACE_")}
        env |= self._env
        self._process = Process([str(COMMAND), "run", "--config", str(self.config_file)], self.log, env=env)

    def kill(self) -> None:
        """SIGKILL: no chance to say goodbye."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def terminate(self) -> int:
        """SIGTERM; return the exit code."""
        assert self._process is not None
        code = self._process.stop()
        self._process = None
        return code

    def reload(self) -> None:
        """SIGHUP."""
        assert self._process is not None
        self._process.signal(signal.SIGHUP)

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.exit_code is None

    def wait_ready(self, *, limit_seconds: float = 20) -> None:
        until(self._ready, "the daemon to be ready", limit_seconds=limit_seconds, detail=self.tail)

    def _ready(self) -> bool:
        assert self.alive, f"the daemon ended: {self.tail()}"
        return self._get("/readyz")[0] == 200

    def decisions(self, pod: str) -> list[dict[str, Any]]:
        """Return the log's decisions for a pod, by its full name; a line is written after the answer."""
        lines = self.log.read_text().splitlines(keepends=True)
        events = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]
        return [one for one in events if one["event"] == "decision" and one["pod"] == f"default/{pod}"]

    def metrics(self) -> str:
        """Return the metrics page; empty while it is not there."""
        return self._get("/metrics")[1]

    def _get(self, path: str) -> tuple[int, str]:
        return get_page(f"http://127.0.0.1:{self._port}{path}", limit_seconds=5)

    def tail(self, lines: int = 15) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
