"""Simulates how strategies fragment a node: ``python -m study``. The results: docs/fragmentation.md."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from study.experiment import QUICK, Effort, run_long, run_short
from study.plot import svg
from study.report import as_json, as_text
from study.second_look import look_again
from study.steering import compare
from study.worlds import SHORT_WORLDS, WORLDS


def main(argv: Sequence[str] | None = None, *, quick: Effort = QUICK) -> int:
    """Run the study and print it; return 0. ``quick`` is what ``--quick`` runs."""
    arguments = _parser().parse_args(argv)
    effort = replace(quick if arguments.quick else Effort(), processes=arguments.processes)
    if arguments.seeds:
        effort = replace(effort, seeds=arguments.seeds)
    chosen = arguments.world or [world.name for world in WORLDS + SHORT_WORLDS]
    tell = _progress if sys.stderr.isatty() else None
    results = run_long([world for world in WORLDS if world.name in chosen], effort, tell)
    short = run_short([world for world in SHORT_WORLDS if world.name in chosen], effort, tell)
    compared = list(compare(results, short))
    looks = look_again(compared, effort, tell)
    if tell:
        sys.stderr.write("\r\x1b[K")
    if arguments.svg:
        arguments.svg.write_text(svg(results))
    if arguments.output == "json":
        text = as_json(results, short, looks, effort=effort)
    else:
        text = as_text(
            results, short, compared, looks, effort=effort, markdown=arguments.output == "markdown"
        )
    sys.stdout.write(text + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m study", description=__doc__)
    parser.add_argument("-o", "--output", choices=("table", "markdown", "json"), default="table")
    parser.add_argument("--seeds", type=_positive, help=f"traces per world ({Effort().seeds})")
    parser.add_argument(
        "--quick", action="store_true", help="few seeds and short traces: seconds, wide intervals"
    )
    parser.add_argument(
        "--world",
        action="append",
        choices=[world.name for world in WORLDS + SHORT_WORLDS],
        help="only this one; may be given several times",
    )
    parser.add_argument(
        "--processes", type=_positive, default=os.cpu_count() or 1, help="default: one per CPU"
    )
    parser.add_argument("--svg", type=Path, metavar="FILE", help="also write the plot of the documentation")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def _progress(done: int, total: int) -> None:
    sys.stderr.write(f"\r{done}/{total} traces\x1b[K")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
