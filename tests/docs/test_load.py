"""The arithmetic of docs/concepts.md for a large cluster, with the times that the daemon works with."""

from __future__ import annotations

from pathlib import Path

import pytest
from numaplace.cluster.client import Limits
from numaplace.cluster.sender import BURST, REFILL_SECONDS
from numaplace.cluster.watch import WatchTimes

NODES = 5000
PODS_PER_SECOND = 100
EVENT_BYTES = 1024
HOUR_SECONDS = 3600
ETCD_DEFAULT_BYTES = 2 << 30

PAGE = (Path(__file__).parents[2] / "docs/concepts.md").read_text()
SECTION = " ".join(PAGE.partition("## Load on the API server")[2].partition("\n## ")[0].split())

TIMES = WatchTimes()
KEPT_SECONDS = Limits().idle_seconds
WATCH_SECONDS = TIMES.watch * 1.5  # from once to twice that, evenly
WORST_EVENTS_PER_SECOND = NODES / REFILL_SECONDS


@pytest.mark.parametrize(
    "said",
    [
        f"{NODES:,} nodes",
        f"in which {PODS_PER_SECOND} pods start per second",
        f"one pod per node in {NODES // PODS_PER_SECOND} s",
        f"{NODES:,} and about {PODS_PER_SECOND * KEPT_SECONDS:.0f} for Events",
        f"{PODS_PER_SECOND} per second \u00d7 {KEPT_SECONDS:.0f} s",
        f"{NODES / 60:.0f} per second",
        f"A watch lives {TIMES.watch / 60:.0f} to {2 * TIMES.watch / 60:.0f} minutes".lower(),
        f"{WATCH_SECONDS / 60} on average: {NODES:,} / {WATCH_SECONDS:.0f} s",
        f"{NODES / WATCH_SECONDS:.0f} per second",
        f"about {6 * PODS_PER_SECOND} per second of 9 KiB, {6 * PODS_PER_SECOND * 9 / 1024:.0f} MiB/s",
        f"{PODS_PER_SECOND * HOUR_SECONDS:,} of about 1 KiB, "
        f"{PODS_PER_SECOND * HOUR_SECONDS * EVENT_BYTES >> 20} MiB",
        f"up to {BURST} at once, then one in {REFILL_SECONDS:.0f} s",
        f"{WORST_EVENTS_PER_SECOND:,.0f} creates per second",
        f"{WORST_EVENTS_PER_SECOND * HOUR_SECONDS / 1e6:.0f} million Events within the hour",
    ],
)
def test_the_arithmetic_is_right(said: str) -> None:
    assert said in SECTION


def test_the_worst_case_is_more_than_etcd_holds() -> None:
    assert WORST_EVENTS_PER_SECOND * HOUR_SECONDS * EVENT_BYTES > ETCD_DEFAULT_BYTES
    assert PODS_PER_SECOND * HOUR_SECONDS * EVENT_BYTES < ETCD_DEFAULT_BYTES / 4
