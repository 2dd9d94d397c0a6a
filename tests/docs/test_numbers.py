"""Numbers that a page takes from the study are those of the study's own page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
STUDY = (DOCS / "fragmentation.md").read_text().partition("## VF pods: ")[2].partition("\n## ")[0]
NONE = STUDY.partition("Policy `none`")[2]


def column(row: str, heading: str) -> int:
    """The rounded mean in a row of the table for policy none."""
    lines = [line.split("|") for line in NONE.splitlines() if line.startswith("|")]
    at = [cell.strip() for cell in lines[0]].index(heading)
    (found,) = (line for line in lines if line[1].strip() == row)
    return round(float(found[at].split()[0]))


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        ("kubelet alone (random)", "| the kubelet alone (random) | {} % |"),
        ("numaplace least-allocated", "| `least-allocated` | {} % |"),
        ("numaplace least-allocated, weights", "| `least-allocated`, `cpu: 0` | {} % |"),
    ],
)
def test_imbalance_in_choosing_a_strategy(row: str, shown: str) -> None:
    assert shown.format(column(row, "imbalance")) in (DOCS / "strategies.md").read_text()


def test_imbalance_in_troubleshooting() -> None:
    even, uneven = (column(f"numaplace least-allocated{name}", "imbalance") for name in (", weights", ""))
    text = " ".join((DOCS / "troubleshooting.md").read_text().split())
    assert f"differ by {even} % of their VFs, instead of {uneven} % with default weights" in text


def test_alignment_in_choosing_a_strategy() -> None:
    packed, by_devices = (column(f"numaplace most-allocated{name}", "aligned") for name in ("", ", weights"))
    assert re.search(
        rf"{packed} % instead of {by_devices} % of these pods", (DOCS / "strategies.md").read_text()
    )
