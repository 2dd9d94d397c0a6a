"""docs/steering.md: every reason has its row, and the page's keys are those that the daemon writes."""

from __future__ import annotations

import re
from pathlib import Path

from daemon.test_steering_page import KNOWN, decided
from numaplace.config.schema import SteeringMode
from numaplace.daemon.steering_page import SteeringView, steering_document
from numaplace.daemon.steering_status import SteeringStatus
from numaplace.steering.reasons import Reason

PAGE = (Path(__file__).parents[2] / "docs/steering.md").read_text()


def first_cells(heading: str) -> set[str]:
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    return {code for cell in cells for code in re.findall(r"`([^`]+)`", cell)}


def test_every_reason_is_explained() -> None:
    assert first_cells("When it withholds nothing, and why") == {reason.value for reason in Reason}


def test_every_mode_is_explained() -> None:
    assert first_cells("When it acts") - {"steering.mode"} == {mode.value for mode in SteeringMode}


def test_every_key_of_the_page_is_explained() -> None:
    status = SteeringStatus(KNOWN, decided(), None, 0, "declared")
    written = steering_document(SteeringView(SteeringMode.AUTO, status))
    assert {key.removesuffix("[]") for key in first_cells("The page `/steering`")} == written.keys()
