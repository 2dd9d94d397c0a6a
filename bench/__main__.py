"""Runs all benchmarks and prints them as one table: ``python -m bench``."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.clustered import measure_clustered
from bench.demo import measure_demo
from bench.latency import SETTINGS, measure
from bench.merge import measure_merge
from bench.report import as_json, as_table
from bench.size import measure_size
from bench.stats import Row
from bench.steering import measure_steering
from bench.steps import measure_steps

CALLS, WARM_UP = 600, 60


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0 if all limits are kept, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--calls", type=int, default=CALLS, help=f"decisions per setting ({CALLS})")
    parser.add_argument(
        "--only",
        choices=("merge", "latency", "size", "steps", "steering", "demo"),
        help="one part of the benchmarks",
    )
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="nbench-", dir="/tmp") as folder:
        rows = list(_rows(Path(folder), calls=arguments.calls, only=arguments.only))
    print(as_json(rows) if arguments.output == "json" else as_table(rows))
    return 1 if any(row.passed is False for row in rows) else 0


def _rows(folder: Path, *, calls: int, only: str | None) -> Iterator[Row]:
    # First, since it is the only one that needs a build.
    if only in (None, "merge"):
        yield from measure_merge()
    if only in (None, "latency"):
        for number, setting in enumerate(SETTINGS):
            yield from measure(setting, folder / f"l{number}", calls=calls, warm_up=WARM_UP)
    if only in (None, "size"):
        yield from measure_size(folder / "size")
        yield from measure_clustered(folder / "clustered")
    if only in (None, "steps"):
        yield from measure_steps()
    if only in (None, "steering"):
        yield from measure_steering(folder / "steering", calls=calls)
    if only in (None, "demo"):
        yield from measure_demo()


if __name__ == "__main__":
    sys.exit(main())
