"""docs/steering.md: every reason has its row, and the page's keys are those that the daemon writes."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
import yaml
from daemon.test_steering_page import KNOWN, decided
from doc_commands import blocks
from numaplace.cli.console import Console
from numaplace.cli.main import main
from numaplace.config.schema import Config, SteeringMode
from numaplace.daemon.steering.page import SteeringView, steering_document
from numaplace.daemon.steering.status import SteeringStatus
from numaplace.daemon.steering.times import Times
from numaplace.doctor.checks.steering import LASTING
from numaplace.kubelet.config.model import MOST_NUMA_NODES
from numaplace.prediction.request import REMEMBERED_REQUESTS
from numaplace.state.ledger import GRANT_GRACE_SECONDS
from numaplace.steering.decision import Reason

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "steering.md").read_text()


def section(heading: str) -> str:
    return PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def first_cells(heading: str) -> set[str]:
    cells = re.findall(r"^\| (`.*?) \|", section(heading), re.MULTILINE)
    return {code for cell in cells for code in re.findall(r"`([^`]+)`", cell)}


def test_every_reason_is_explained() -> None:
    assert first_cells("When it withholds nothing, and why") == {reason.value for reason in Reason}


def test_every_mode_is_explained() -> None:
    assert first_cells("When it acts") - {"steering.mode"} == {mode.value for mode in SteeringMode}


def test_doctor_says_what_to_do_where_the_document_does() -> None:
    rows = re.findall(
        r"^\| (`.*?) \| .* \| (.*) \|$", section("When it withholds nothing, and why"), re.MULTILINE
    )
    found = {code: to_do for cell, to_do in rows for code in re.findall(r"`([^`]+)`", cell)}
    needing = {code for code, to_do in found.items() if not to_do.startswith("nothing")}
    assert needing == {reason.value for reason in LASTING}


@pytest.mark.parametrize(
    "said",
    [
        f"the last {REMEMBERED_REQUESTS} different ones",
        f"or for {GRANT_GRACE_SECONDS:.0f} seconds",
        f"within the last {Times().blame_seconds:.0f} seconds",
        f"more than {MOST_NUMA_NODES} NUMA nodes",
        f"`deadline` ({Config().deadline_seconds} s)",
        "more than a few thousand predictions",
    ],
)
def test_its_numbers_are_the_codes(said: str) -> None:
    assert said in " ".join(PAGE.split())


def test_what_it_costs_is_what_was_measured() -> None:
    table = (DOCS / "benchmarks.md").read_text()
    p50, p99, most = (
        float(re.findall(rf"while steering, .* {row} +([\d.]+) ms", table)[0])
        for row in ("1 request: p50", "1 request: p99", "50 requests: p99")
    )
    said = f"{p50:.0f} ms in the median and {p99:.0f} ms at the 99th percentile with one kind of request"
    assert f"{said}, up to {most:.0f} ms" in " ".join(PAGE.split())


def test_a_kubelet_starts_with_the_example(tmp_path: Path) -> None:
    """Its reserved memory, for one, has to be the sum of what the node reserves."""
    text = next(text for _, text in blocks(DOCS / "steering.md") if "topologyManagerPolicy:" in text)
    kubelet = {key: value for key, value in yaml.safe_load(text).items() if key not in ("apiVersion", "kind")}
    numa = [{"id": node, "cpus": cpus, "memory": "64Gi"} for node, cpus in ((0, "0-31"), (1, "32-63"))]
    pod = {"name": "p", "containers": [{"name": "main", "cpu": 8, "memory": "32Gi"}]}
    file = tmp_path / "scenario.yaml"
    file.write_text(
        yaml.safe_dump({"node": {"numaNodes": numa}, "kubelet": kubelet, "steps": [{"create": pod}]})
    )
    out, err = io.StringIO(), io.StringIO()
    assert main(["simulate", str(file)], Console(out=out, err=err, env={})) == 0, err.getvalue()
    assert "1 of 1 pods admitted" in out.getvalue()


def test_every_key_of_the_page_is_explained() -> None:
    status = SteeringStatus(KNOWN, decided(), None, 0, "declared")
    written = steering_document(SteeringView(SteeringMode.AUTO, status))
    assert {key.removesuffix("[]") for key in first_cells("The page `/steering`")} == written.keys()
