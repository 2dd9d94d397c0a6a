"""What a check finds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is. ``unknown``: could not be seen from here, which is no problem by itself."""

    OK = "ok"
    UNKNOWN = "unknown"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding, in sentences for people. ``check`` is filled in by ``checks.table.examine``.

    ``detail`` says how it was seen, ``advice`` what to do (empty where nothing is to be done).
    """

    level: Level
    summary: str
    detail: str = ""
    advice: str = ""
    check: str = ""


def is_ok(findings: Iterable[Finding]) -> bool:
    """Return whether there is no problem; warnings and what is unknown are allowed."""
    return all(finding.level is not Level.PROBLEM for finding in findings)
