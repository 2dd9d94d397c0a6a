"""What ``numaplace doctor`` shows: findings as a JSON document and as text. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from numaplace.cli.table import BOLD, YELLOW, paint
from numaplace.doctor.findings import Finding, Level, is_ok

WIDTH = 110
RED, GREEN, CYAN = "\x1b[31m", "\x1b[32m", "\x1b[36m"
STYLES = {Level.OK: GREEN, Level.UNKNOWN: CYAN, Level.WARNING: YELLOW, Level.PROBLEM: RED}
_MARGIN = max(map(len, Level)) + 2


def as_document(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the document of ``-o json``; its keys and order are described in ``docs/doctor.md``."""
    return {
        "findings": [
            {
                "check": finding.check,
                "level": finding.level.value,
                "summary": finding.summary,
                "detail": finding.detail,
                "advice": finding.advice,
            }
            for finding in findings
        ],
        "ok": is_ok(findings),
    }


def as_text(findings: Sequence[Finding], *, colour: bool = False) -> str:
    """Return the findings by check, then their counts; an ``ok`` takes one line."""
    lines: list[str] = []
    check = ""
    for finding in findings:
        if finding.check != check:
            check = finding.check
            lines += ["", paint(check, BOLD, colour=colour)] if lines else [paint(check, BOLD, colour=colour)]
        lines += _lines(finding, colour=colour)
    return "\n".join((*lines, "", _sum(findings)))


def _lines(finding: Finding, *, colour: bool) -> Iterator[str]:
    mark = paint(finding.level.value, STYLES[finding.level], colour=colour)
    first, *more = _wrapped(finding.summary)
    yield f"  {mark}{' ' * (_MARGIN - len(finding.level))}{first}"
    parts = [*more]
    if finding.level is not Level.OK and finding.detail:
        parts += _wrapped(f"seen: {finding.detail}")
    if finding.advice:
        parts += _wrapped(f"do: {finding.advice}")
    for part in parts:
        yield f"{' ' * (_MARGIN + 2)}{part}"


def _wrapped(text: str) -> list[str]:
    width = WIDTH - _MARGIN - 2
    return textwrap.wrap(
        text, width, break_long_words=False, break_on_hyphens=False, subsequent_indent="  "
    ) or [""]


def _sum(findings: Sequence[Finding]) -> str:
    counts = {level: sum(one.level is level for one in findings) for level in reversed(Level)}
    shown = ", ".join(_counted(count, level) for level, count in counts.items() if count)
    return f"{shown}: {'no problem found' if is_ok(findings) else 'there is something to fix'}"


def _counted(count: int, level: Level) -> str:
    countable = level in (Level.PROBLEM, Level.WARNING)
    return f"{count} {level.value}{'s' if countable and count > 1 else ''}"
