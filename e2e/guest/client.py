"""The agent in the guest, and QEMU's monitor, as the tests use them."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import socket
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.waiters import until

RUN_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command in the guest ended."""

    code: int
    output: str
    errors: str


class Agent:
    """Runs commands in the guest, starts processes there, reads and writes its files."""

    def __init__(self, port: int) -> None:
        self._port = port

    def answers(self) -> bool:
        """Whether it is there yet."""
        try:
            return self.attempt("true", seconds=3).code == 0
        except (OSError, http.client.HTTPException):
            return False

    def attempt(
        self, *argv: str, seconds: float = RUN_SECONDS, env: Mapping[str, str] | None = None
    ) -> Outcome:
        """Run a command to its end, whatever comes of it."""
        request = {"argv": argv, "seconds": seconds, "env": _assignments(env)}
        return Outcome(**json.loads(self._ask("POST", "/run", request, limit_seconds=seconds + 5)))

    def run(self, *argv: str, seconds: float = RUN_SECONDS) -> str:
        """Run a command that has to succeed; return its output."""
        done = self.attempt(*argv, seconds=seconds)
        assert done.code == 0, f"{argv}: exit code {done.code}: {done.output}{done.errors}"
        return done.output

    def shell(self, script: str, *, seconds: float = RUN_SECONDS) -> str:
        """Run shell commands, each of which has to succeed; return their output."""
        return self.run("sh", "-ec", script, seconds=seconds)

    def start(self, argv: Sequence[str], *, log: str, env: Mapping[str, str] | None = None) -> RemoteProcess:
        """Start a process in the background; its output is appended to ``log`` (a path in the guest)."""
        reply = self._ask("POST", "/start", {"argv": argv, "log": log, "env": _assignments(env)})
        return RemoteProcess(self, json.loads(reply)["pid"], log)

    def read(self, pattern: str) -> str:
        """Return the content of all files that match a shell pattern; empty without one."""
        try:
            return self._ask("GET", f"/file?{urllib.parse.urlencode({'path': pattern})}").decode(
                errors="replace"
            )
        except FileNotFoundError:
            return ""

    def write(self, path: str, content: str | bytes) -> None:
        """Replace a file; in /sys and /proc, write to it."""
        self._ask("PUT", f"/file?{urllib.parse.urlencode({'path': path})}", content)

    def exit_code(self, pid: int) -> int | None:
        return json.loads(self._ask("GET", f"/process?pid={pid}"))["code"]

    def send_signal(self, pid: int, number: signal.Signals) -> None:
        self._ask("POST", f"/signal?pid={pid}&number={int(number)}")

    def _ask(self, method: str, path: str, body: object = None, *, limit_seconds: float = 60) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=limit_seconds)
        with contextlib.closing(connection):
            content = body if isinstance(body, str | bytes | None) else json.dumps(body)
            connection.request(method, path, content)
            reply = connection.getresponse()
            answer = reply.read()
        if reply.status == http.client.NOT_FOUND:
            raise FileNotFoundError(path)
        if reply.status != http.client.OK:
            raise AssertionError(f"agent: {method} {path}: {answer.decode(errors='replace').strip()}")
        return answer


@dataclass(frozen=True, slots=True)
class RemoteProcess:
    """A process in the guest."""

    agent: Agent
    pid: int
    log: str

    @property
    def exit_code(self) -> int | None:
        """None while it runs; -1 if a signal ended it."""
        return self.agent.exit_code(self.pid)

    def signal(self, number: signal.Signals) -> None:
        self.agent.send_signal(self.pid, number)

    def kill(self) -> None:
        self._end(signal.SIGKILL, limit_seconds=20)

    def stop(self, *, limit_seconds: float = 40) -> int:
        """Ask it to end; return its exit code."""
        return self._end(signal.SIGTERM, limit_seconds=limit_seconds)

    def _end(self, number: signal.Signals, *, limit_seconds: float) -> int:
        self.signal(number)
        ended = until(
            lambda: None if (code := self.exit_code) is None else (code,),
            f"process {self.pid} to end",
            limit_seconds=limit_seconds,
        )
        return ended[0]

    def tail(self, lines: int = 15) -> str:
        return "\n".join(self.agent.read(self.log).splitlines()[-lines:])


class Monitor:
    """QEMU's monitor (QMP)."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def execute(self, command: str, **arguments: object) -> object:
        """Run one command and return what it returns."""
        with self._connected() as (lines, send):
            json.loads(next(lines))
            for request in ({"execute": "qmp_capabilities"}, {"execute": command, "arguments": arguments}):
                send(request)
                reply = self._reply(lines)
        return reply

    @contextlib.contextmanager
    def _connected(self) -> Iterator[tuple[Iterator[str], object]]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(20)
            connection.connect(str(self._path))
            with connection.makefile("rw") as stream:

                def send(request: object) -> None:
                    stream.write(json.dumps(request) + "\n")
                    stream.flush()

                yield iter(stream), send

    @staticmethod
    def _reply(lines: Iterator[str]) -> object:
        for line in lines:
            answer = json.loads(line)
            if "error" in answer:
                raise AssertionError(f"QEMU: {answer['error']}")
            if "return" in answer:
                return answer["return"]
        raise AssertionError("QEMU's monitor went away")


def _assignments(env: Mapping[str, str] | None) -> list[str]:
    return [f"{name}={value}" for name, value in (env or {}).items()]
