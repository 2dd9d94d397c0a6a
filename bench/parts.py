"""Processes and channels of a benchmark."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import grpc
import yaml
from numaplace.kubelet.api.podresources_pb2 import ListPodResourcesRequest, ListPodResourcesResponse
from numaplace.kubelet.api.podresources_pb2_grpc import PodResourcesListerStub
from numaplace.kubelet.channel import RECEIVE_LIMIT_BYTES, unix_target

from bench.child import CONTROL_SERVICE

ROOT = Path(__file__).resolve().parent.parent
CLOCK_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
STOP_SECONDS = 10.0
FACT_SECONDS = 20.0

KUBELET_DIAL_OPTIONS = (("grpc.default_authority", "localhost"), ("grpc.enable_http_proxy", 0))
"""Insecure, authority ``localhost``, a unix socket, gRPC's defaults otherwise (kubelet
``cm/devicemanager/plugin/v1beta1/client.go``, dial)."""


class Child:
    """A child process that prints facts, one line of JSON each. ``spawned`` is on ``time.monotonic``."""

    def __init__(self, role: str, folder: Path, *resources: str) -> None:
        self.spawned = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.child", role, str(folder), *resources],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid

    def fact(self, *, hint: Path | None = None) -> dict[str, object]:
        """Return the next fact; ``RuntimeError`` if none comes in time, with the end of the file ``hint``."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], FACT_SECONDS)
        line = self._process.stdout.readline() if ready else ""
        if not line:
            tail = hint.read_text()[-2000:] if hint else ""
            raise RuntimeError(f"{self._process.args!r} has nothing to say\n{tail}")
        fact: dict[str, object] = json.loads(line)
        return fact

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        _await_end(self._process)
        if self._process.stdout is not None:
            self._process.stdout.close()


class Daemon:
    """``numaplace run`` with a configuration, and variables besides; its log goes to a file."""

    def __init__(
        self, folder: Path, config: dict[str, object], *, environment: Mapping[str, str] | None = None
    ) -> None:
        file = folder / "numaplace.yaml"
        kubelet = {
            "devicePluginDirectory": str(folder / "device-plugins"),
            "podResourcesSocket": str(folder / "list.sock"),
        }
        file.write_text(yaml.safe_dump({**config, "kubelet": kubelet, "http": {"address": "127.0.0.1:0"}}))
        kept = {key: value for key, value in os.environ.items() if not key.startswith("NUMAPLACE_")}
        self.log = folder / "numaplace.log"
        with self.log.open("a") as log:
            self.spawned = time.monotonic()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "numaplace", "run", "--config", str(file)],
                stdin=subprocess.DEVNULL,
                stderr=log,
                env={**kept, **(environment or {})},
            )
        self.pid = self._process.pid

    def stop(self) -> None:
        self._process.terminate()
        _await_end(self._process)


def _await_end(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class PodResources:
    """The replies of the kubelet's process, and a bare client of the same API."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._api = PodResourcesListerStub(channel)
        self._replace = _raw(channel, "Replace")
        self._add = _raw(channel, "Add")
        self._allocatable = _raw(channel, "Allocatable")

    def bare_list(self) -> ListPodResourcesResponse:
        """Call List; the reply is decoded by protobuf and dropped."""
        return self._api.List(ListPodResourcesRequest())

    def show(self, *listings: bytes) -> None:
        """Answer List with these replies in turn."""
        self._replace(listings[0])
        for one in listings[1:]:
            self._add(one)

    def set_allocatable(self, reply: bytes) -> None:
        """Answer GetAllocatableResources with this reply."""
        self._allocatable(reply)


def _raw(channel: grpc.Channel, method: str) -> grpc.UnaryUnaryMultiCallable[bytes, bytes]:
    return channel.unary_unary(f"/{CONTROL_SERVICE}/{method}")


@contextlib.contextmanager
def channel(path: Path, options: Sequence[tuple[str, object]] = ()) -> Iterator[grpc.Channel]:
    limit = ("grpc.max_receive_message_length", RECEIVE_LIMIT_BYTES)
    made = grpc.insecure_channel(unix_target(path), options=(limit, *options))
    try:
        grpc.channel_ready_future(made).result(STOP_SECONDS)
        yield made
    finally:
        made.close()


def rss_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has ended")


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, all threads, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS_PER_SECOND
