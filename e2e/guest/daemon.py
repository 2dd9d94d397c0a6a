"""``numaplace run`` as a process in the guest."""

from __future__ import annotations

import signal
from collections.abc import Mapping

import yaml
from guest.boot import Guest
from guest.client import RemoteProcess
from guest.keeper import log_path
from guest.machine import DAEMON_PORT
from harness.pages import get_page, samples_of
from harness.waiters import until

CONFIGURATION = "/etc/numaplace.yaml"
READY_SECONDS = 120
# A guest without KVM is 15 times slower than a node: what is waited for here takes its time.
BASE: Mapping[str, object] = {
    "deadline": "10s",
    "rescanInterval": "3s",
    "cluster": {"enabled": False},
    "http": {"address": f":{DAEMON_PORT}"},
}


class GuestDaemon:
    """One daemon, with one configuration after the other; killed and started again at will."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest
        self._process: RemoteProcess | None = None
        self._config = ""

    def use(self, config: Mapping[str, object]) -> None:
        """Have a daemon with this configuration: by a reload if one runs. Returns when it is in force."""
        text = yaml.safe_dump({**BASE, **config}, sort_keys=False)
        if self.alive and text == self._config:
            return
        self._guest.agent.write(CONFIGURATION, text)
        self._config = text
        if self.alive:
            self._reload()
        else:
            self.start()

    def start(self) -> None:
        """Start it with the last configuration, and wait until its pages are there.

        They are its own: one from before, which may still be ending as a container, is waited for.
        """
        self.wait_gone()
        self._process = self._guest.agent.start(
            ["/opt/numaplace/bin/numaplace", "run", "--config", CONFIGURATION], log=log_path("numaplace")
        )

        def listens() -> bool:
            assert self.alive, f"the daemon ended: {self.tail()}"
            return bool(self.metrics())

        until(listens, "the daemon's metrics", limit_seconds=READY_SECONDS, detail=self.tail)

    def wait_gone(self) -> None:
        """Wait until no daemon's pages are there."""
        until(lambda: not self.metrics(), "an earlier daemon's pages to go", limit_seconds=READY_SECONDS)

    def _reload(self) -> None:
        assert self._process is not None
        before = until(self._reloads, "the daemon's metrics", limit_seconds=READY_SECONDS, detail=self.tail)
        self._process.signal(signal.SIGHUP)
        until(
            lambda: (now := self._reloads()) and now != before,
            "the reload",
            limit_seconds=READY_SECONDS,
            detail=self.tail,
        )

    def _reloads(self) -> tuple[float] | None:
        """How many configurations it has taken; None while it does not say."""
        assert self.alive, f"the daemon ended: {self.tail()}"
        count = self.metric("numaplace_reloads_total", result="accepted")
        return None if count is None else (count,)

    def kill(self) -> None:
        """SIGKILL: no chance to say goodbye."""
        if self._process is not None and self.alive:
            self._process.kill()
        self._process = None

    def terminate(self) -> int:
        """SIGTERM; return the exit code."""
        assert self._process is not None
        code = self._process.stop()
        self._process = None
        return code

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.exit_code is None

    def metrics(self) -> str:
        """Return the metrics page; empty while it is not there."""
        return self._get("/metrics")[1]

    def samples(self, name: str) -> list[tuple[Mapping[str, str], float]]:
        """Return labels and value of each sample of a metric."""
        return samples_of(self.metrics(), name)

    def metric(self, name: str, **labels: str) -> float | None:
        """Return the value of the sample with these labels."""
        return next((value for own, value in self.samples(name) if labels.items() <= own.items()), None)

    def _get(self, path: str) -> tuple[int, str]:
        return get_page(f"http://127.0.0.1:{self._guest.ports[DAEMON_PORT]}{path}", limit_seconds=15)

    def log(self) -> str:
        """Return all that it has written."""
        return self._guest.agent.read(log_path("numaplace"))

    def tail(self, lines: int = 15) -> str:
        return "\n".join(self.log().splitlines()[-lines:])
