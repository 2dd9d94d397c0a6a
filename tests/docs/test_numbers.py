"""Numbers that a page takes from the study are those of the study's own page."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
STUDY = (DOCS / "fragmentation.md").read_text().partition("## VF pods: ")[2].partition("\n## ")[0]
NONE = STUDY.partition("Policy `none`")[2]


def column(row: str, heading: str) -> int:
    """The rounded mean in a row of the table for policy none."""
    lines = [line.split("|") for line in NONE.splitlines() if line.startswith("|")]
    at = [cell.strip() for cell in lines[0]].index(heading)
    (found,) = (line for line in lines if line[1].strip() == row)
    return round(float(found[at].split()[0]))


def told(page: str) -> str:
    return " ".join((DOCS / page).read_text().split())


def test_imbalance_where_devices_do_not_follow_the_cpus() -> None:
    """These rows are in no table (those are with followCPUs): the study's page tells them in a sentence."""
    (even, uneven) = re.search(
        r"`cpu=0` uses the VFs evenly \((\d+) %\), with equal weights .* does not \((\d+) %\)",
        told("fragmentation.md"),
    ).groups()  # type: ignore[union-attr]
    strategies = told("strategies.md")
    assert f"| the kubelet alone (random) | {column('kubelet alone (random)', 'imbalance')} % |" in strategies
    assert f"| `least-allocated` | {uneven} % |" in strategies
    assert f"| `least-allocated`, `cpu: 0` | {even} % |" in strategies
    assert f"differ by {even} % of their VFs, instead of {uneven} % with default weights" in told(
        "troubleshooting.md"
    )


def test_alignment_in_choosing_a_strategy() -> None:
    (most,) = re.search(
        r"Then \d+ to (\d+) % of the pods get both on one NUMA node", told("fragmentation.md")
    ).groups()  # type: ignore[union-attr]
    following, alone = (
        column(row, "aligned") for row in ("numaplace most-allocated", "kubelet alone (random)")
    )
    assert (
        f"up to {most} % of these pods have both on one NUMA node; {following} % where devices follow "
        f"the CPUs, {alone} % with the kubelet alone"
    ) in told("strategies.md")
