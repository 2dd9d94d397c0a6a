"""A command that fails in the way that its argument names."""

from __future__ import annotations

from collections.abc import Sequence

from numaplace.cli.console import Console
from numaplace.errors import ConfigError, InputError, PeerError

FAILURES: dict[str, BaseException] = {
    "input": InputError("--file x: is not there"),
    "config": ConfigError(("c.yaml:1: a", "c.yaml:2: b")),
    "peer": PeerError("the kubelet does not answer", code="UNAVAILABLE"),
    "interrupt": KeyboardInterrupt(),
    "bug": ZeroDivisionError(),
}


def main(argv: Sequence[str], console: Console) -> int:
    raise FAILURES[argv[0]]
