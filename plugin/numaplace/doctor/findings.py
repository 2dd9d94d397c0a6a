"""What a check finds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """Severity. ``unknown``: could not be read from here, which is not a problem by itself."""

    OK = "ok"
    UNKNOWN = "unknown"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding, in sentences for people. ``check`` is filled in by ``checks.table.examine``.

    ``detail`` is the evidence, ``advice`` what to do (empty: nothing).
    """

    level: Level
    summary: str
    detail: str = ""
    advice: str = ""
    check: str = ""


def is_ok(findings: Iterable[Finding]) -> bool:
    """Return whether there is no problem; warnings and what is unknown are allowed."""
    return all(finding.level is not Level.PROBLEM for finding in findings)
