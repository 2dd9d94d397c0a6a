"""The ``numaplace`` command: finds the command's module, runs it, and turns errors into exit codes.

Only the requested command's module is imported: the daemon does not load the demo.
"""

from __future__ import annotations

import importlib
import os
import sys
from argparse import REMAINDER, ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from numaplace import __version__
from numaplace.cli.console import Console
from numaplace.errors import ConfigError, InputError, PeerError

DONE, NOT_SO, BAD_INPUT, INTERRUPTED, PIPE_CLOSED = 0, 1, 2, 130, 141


class CommandModule(Protocol):
    """What the module of a command has."""

    def main(self, argv: Sequence[str], console: Console) -> int: ...


@dataclass(frozen=True, slots=True)
class Command:
    """One row of the table of commands."""

    module: str
    help: str


COMMANDS = {
    "run": Command("numaplace.cli.run", "run the daemon: the device plugin of this node"),
    "demo": Command("numaplace.cli.demo", "show the strategies on a simulated node; no cluster, no root"),
    "simulate": Command(
        "numaplace.cli.simulate", "run a scenario file: what a kubelet would do with these pods"
    ),
    "explain": Command("numaplace.cli.explain", "show why a scenario's pod lands where it does, or why not"),
    "inspect": Command("numaplace.cli.inspection", "show what is allocated on which NUMA node, live"),
    "doctor": Command("numaplace.cli.doctor", "check this node: what is wrong, and what to do"),
    "config": Command("numaplace.cli.config", "check a configuration file"),
}


def main(
    argv: Sequence[str] | None = None,
    console: Console | None = None,
    *,
    commands: Mapping[str, Command] = COMMANDS,
) -> int:
    """Run the command line; return the exit code: 0 success, 1 the check failed, 2 bad input or usage."""
    console = console or Console()
    # gRPC's C core writes lines of its own to standard error, even when a kubelet just restarts.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    try:
        code = _dispatch(sys.argv[1:] if argv is None else argv, console, commands=commands)
        console.out.flush()
    except InputError as error:
        return _fail(console, error, BAD_INPUT)
    except PeerError as error:
        return _fail(console, error, NOT_SO)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _close_quietly(console)
        return PIPE_CLOSED
    return code


def _dispatch(argv: Sequence[str], console: Console, *, commands: Mapping[str, Command]) -> int:
    try:
        arguments = _parser(commands).parse_args(argv)
        module = cast(CommandModule, importlib.import_module(commands[arguments.command].module))
        return module.main(arguments.rest, console)
    except SystemExit as stop:  # argparse: help, version, wrong usage
        return stop.code if isinstance(stop.code, int) else DONE


def _parser(commands: Mapping[str, Command]) -> ArgumentParser:
    width = max(map(len, commands))
    listed = "\n".join(f"  {name:{width}}  {command.help}" for name, command in commands.items())
    parser = ArgumentParser(
        prog="numaplace",
        description="Puts SR-IOV VFs and GPUs on the right NUMA node of a Kubernetes worker.",
        epilog=f"commands:\n{listed}\n\n"
        "exit codes: 0 success, 1 the check failed, 2 bad input or usage\n"
        "example: numaplace demo",
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"numaplace {__version__}")
    parser.add_argument("command", metavar="COMMAND", choices=commands, help="one of the commands below")
    parser.add_argument("rest", metavar="...", nargs=REMAINDER, help="see: numaplace COMMAND --help")
    return parser


def _fail(console: Console, error: Exception, code: int) -> int:
    if isinstance(error, ConfigError):
        console.warn(f"numaplace: {error.subject} is refused ({len(error.problems)} to fix):")
        console.warn("\n".join(error.problems))
    else:
        console.warn(f"numaplace: {error}")
    return code


def _close_quietly(console: Console) -> None:
    """Redirect stdout: the interpreter flushes it once more at exit, which would fail."""
    if console.out is sys.stdout:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
