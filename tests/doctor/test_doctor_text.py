"""What people read, and that the documents know every check."""

from __future__ import annotations

from pathlib import Path

import pytest
from numaplace.cli.diagnosis import WIDTH, as_document, as_text
from numaplace.doctor.checks.table import CHECKS
from numaplace.doctor.findings import Finding, Level

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/doctor.md"
FINDINGS = (
    Finding(Level.OK, "two nodes", "read somewhere", check="numa"),
    Finding(Level.WARNING, "all on one", "NUMA 0: 4", "move a card " * 20, check="numa"),
    Finding(Level.PROBLEM, "no socket", "looked", "start it", check="registration"),
    Finding(Level.UNKNOWN, "not seen", "denied", check="limits"),
)


def test_text_for_people() -> None:
    text = as_text(FINDINGS)
    lines = text.splitlines()
    assert lines[:4] == [
        "numa",
        "  ok       two nodes",
        "  warning  all on one",
        "           seen: NUMA 0: 4",
    ]
    assert max(map(len, lines)) <= WIDTH
    assert "read somewhere" not in text
    assert lines[-1] == "1 problem, 1 warning, 1 unknown, 1 ok: there is something to fix"
    assert as_text(FINDINGS[:2]).endswith("1 warning, 1 ok: no problem found")
    assert "\x1b" not in text


def test_colour_changes_nothing_but_colour() -> None:
    coloured = as_text(FINDINGS, colour=True)
    assert "\x1b[31mproblem\x1b[0m" in coloured
    for code in ("\x1b[0m", "\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m"):
        coloured = coloured.replace(code, "")
    assert coloured == as_text(FINDINGS)


def test_json_holds_everything() -> None:
    shown = as_document(FINDINGS)
    assert shown["ok"] is False
    assert shown["findings"][2] == {
        "check": "registration",
        "level": "problem",
        "summary": "no socket",
        "detail": "looked",
        "advice": "start it",
    }
    assert as_document((FINDINGS[1], FINDINGS[3]))["ok"] is True


@pytest.mark.parametrize("check", CHECKS)
def test_every_check_is_documented(check: str) -> None:
    assert f"| `{check}` |" in DOCUMENT.read_text()
