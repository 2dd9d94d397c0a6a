"""Rows as a table for people, and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tabulate import tabulate

from bench.stats import Row

_VERDICTS = {True: "pass", False: "MISSED", None: ""}
_HEADERS = ("what", "numaplace", "reference", "ratio", "limit", "")


def as_table(rows: Sequence[Row]) -> str:
    cells = [
        (
            row.name,
            _amount(row.value, row.unit),
            _amount(row.reference, row.unit) if row.reference else "",
            "" if row.ratio is None else _ratio(row.ratio),
            row.limit,
            _VERDICTS[row.passed],
        )
        for row in rows
    ]
    return tabulate(cells, headers=_HEADERS, disable_numparse=True, colalign=("left", *["right"] * 4, "left"))


def as_json(rows: Sequence[Row]) -> str:
    """Return a list of objects; absent limits are null."""
    return json.dumps(
        [
            {
                "name": row.name,
                "unit": row.unit,
                "value": row.value,
                "reference": row.reference,
                "ratio": row.ratio,
                "maxRatio": row.max_ratio,
                "maxValue": row.max_value,
                "passed": row.passed,
            }
            for row in rows
        ],
        indent=2,
    )


def _amount(value: float, unit: str) -> str:
    return f"{value:.3g} {unit}" if value < 100 else f"{value:.0f} {unit}"


def _ratio(ratio: float) -> str:
    return f"{ratio:.2f} x" if ratio >= 0.1 else f"{ratio:.2g} x"
