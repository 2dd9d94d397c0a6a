"""``numaplace demo``: the strategies on a simulated node."""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence

from numaplace.cli.console import Console


def parser() -> ArgumentParser:
    """Return the command's parser."""
    return ArgumentParser(
        prog="numaplace demo",
        description="Starts a simulated NUMA node (a kubelet emulator on real gRPC sockets in a temporary\n"
        "folder) and the real daemon against it, admits a handful of pods under each strategy,\n"
        "and shows where each landed and why. Needs no cluster and no root.",
        epilog="example: numaplace demo",
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def main(argv: Sequence[str], console: Console) -> int:
    """Run the demo; return the exit code."""
    parser().parse_args(argv)
    from numaplace.simulate import demo

    return demo.main(output=console.out)
