"""How long ``numaplace demo`` takes, from start to end, beside a Python that starts and does nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from statistics import median

from bench.stats import Row

RUNS, STARTS = 3, 5
MAX_SECONDS = 15.0


def measure_demo() -> list[Row]:
    demo = median(_seconds("-m", "numaplace", "demo") for _ in range(RUNS))
    bare = median(_seconds("-c", "pass") for _ in range(STARTS))
    return [Row("numaplace demo, start to end", "s", demo, bare, max_value=MAX_SECONDS)]


def _seconds(*arguments: str) -> float:
    started = time.monotonic()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - started
