"""The study as tables for people, as Markdown for the documentation, and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from tabulate import tabulate

from study.experiment import Effort, Result, ShortResult
from study.measures import MEASURES, Measure
from study.second_look import SecondLook
from study.stats import Estimate
from study.steering import SHOWN, Compared
from study.summary import Row, ShortRow, Table, short_rows, tables_of

NOTE = (
    "Percent, mean over {seeds} seeds, ± 95 % confidence interval. ↑ and ↓: higher or lower than in the "
    "first row\non the same traces (0 is outside the interval of the paired difference)."
)
LEFT = frozenset({"", "Node, load", "Policy", "Strategy", "Measure"})
"""The columns of words."""

STEERING_NOTE = (
    "Random choice (policy none) / stock kubelet / steering on it / KEP-6007 in it. ↑ and ↓: against the "
    "stock\nkubelet. Optimum: the most that can be aligned. The last column: aligned, steering minus stock; "
    "off: nothing\nis withheld, for the jobs are of several sizes; a difference is then that of "
    "GetPreferredAllocation."
)


SECOND_NOTE = (
    "Rows in which steering (auto) looks worse than the stock kubelet: lower in admitted or aligned, or, if "
    "it\nspreads, higher in imbalance. Of so many comparisons some look so by chance: hence other traces, "
    "{traces} for\neach."
)


def as_text(
    results: Sequence[Result],
    short: Sequence[ShortResult],
    compared: Sequence[Compared],
    looks: Sequence[SecondLook],
    *,
    effort: Effort,
    markdown: bool,
) -> str:
    style = "github" if markdown else "simple"
    parts = [NOTE.format(seeds=effort.seeds)]
    for result in results:
        parts.append(_title(result.world.title, result.load, markdown=markdown))
        for table in tables_of(result):
            in_use = table.rows[0].values["used"].mean
            parts.append(f"Topology Manager policy {table.policy} (devices {in_use:.0f} % in use)")
            parts.append(_long_table(table, style))
    for one in short:
        parts.append(_title(one.world.title, one.load, markdown=markdown))
        parts.append(_short_table(list(short_rows(one)), style))
    parts.append(_heading("Steering a stock kubelet", markdown=markdown))
    parts.append(STEERING_NOTE)
    parts.append(_steering_table(compared, style))
    if looks:
        parts.append(_heading("A second look", markdown=markdown))
        parts.append(SECOND_NOTE.format(traces=looks[0].traces))
        parts.append(_second_table(looks, style))
    return "\n\n".join(parts)


def _title(title: str, load: float, *, markdown: bool) -> str:
    return _heading(f"{title}; offered load {load:.0%}", markdown=markdown)


def _heading(line: str, *, markdown: bool) -> str:
    return f"### {line}" if markdown else f"{line}\n{'=' * len(line)}"


def _long_table(table: Table, style: str) -> str:
    shown = _shown(table)
    headings = ["", *(one.heading for one in shown), "aligned, difference"]
    rows = [
        [
            row.arm.name,
            *(_cell(row, one) for one in shown),
            "" if not number else _signed(row.differences["aligned"]),
        ]
        for number, row in enumerate(table.rows)
    ]
    return _render(rows, headings, style)


def _shown(table: Table) -> list[Measure]:
    """Return the columns with information: not all zero, not the same as another column or in all rows."""

    def column(key: str) -> list[Estimate]:
        return [row.values[key] for row in table.rows]

    repeats = {"aligned"} if column("aligned") == column("admitted") else set()
    if len(set(column("used"))) == 1:
        repeats.add("used")
    return [
        one
        for one in MEASURES
        if one.key not in repeats and any(value.mean >= 0.05 for value in column(one.key))
    ]


def _cell(row: Row, measure: Measure) -> str:
    value, difference = row.values[measure.key], row.differences[measure.key]
    arrow = " " if not difference.differs_from_zero else "↑" if difference.mean > 0 else "↓"
    return f"{value.mean:.1f} ±{value.half_width:.1f} {arrow}".rstrip() + (" " if arrow == " " else "")


def _signed(value: Estimate) -> str:
    return f"{value.mean:+.1f} ±{value.half_width:.1f}"


def _short_table(rows: Sequence[ShortRow], style: str) -> str:
    headings = ["", "Topology Manager", "aligned, % of the optimum", "traces placed perfectly"]
    cells = [
        [
            row.name,
            row.policy or "",
            f"{row.of_optimum.mean:.1f} ±{row.of_optimum.half_width:.1f}",
            f"{row.reached.mean:.0f} ±{row.reached.half_width:.0f}" if row.policy else "",
        ]
        for row in rows
    ]
    return _render(cells, headings, style)


def _steering_table(rows: Sequence[Compared], style: str) -> str:
    headings = ["Node, load", "Policy", "Strategy", *(f"{key}" for key in SHOWN), "optimum", "steering"]
    cells = [
        [
            *_case(row),
            *(_side_by_side(row, key) for key in SHOWN),
            "" if row.optimum is None else f"{row.optimum:.1f}",
            _told(row),
        ]
        for row in rows
    ]
    return _render(cells, headings, style)


def _second_table(looks: Sequence[SecondLook], style: str) -> str:
    headings = ["Node, load", "Policy", "Strategy", "Measure", "first look", "second look"]
    cells = [
        [*_case(one.row), key, _signed(one.row.higher[key][0]), _signed(second)]
        for one in looks
        for key, second in one.differences.items()
    ]
    return _render(cells, headings, style)


def _case(row: Compared) -> tuple[str, str, str]:
    strategy = row.steering.name.removeprefix("steering ").replace("weights", f"`{row.world.weights}`")
    return f"{row.world.name}, {row.load:.0%}", row.steering.policy, strategy


def _told(row: Compared) -> str:
    difference = row.higher["aligned"][0]
    if not row.off:
        return _signed(difference)
    same = not difference.mean and not difference.half_width
    return "off" if same else f"off, {_signed(difference)}"


def _side_by_side(row: Compared, key: str) -> str:
    random, stock, steering, kep = (f"{value:.1f}" for value in row.means[key])
    mine, best = (_arrow(one) for one in row.higher[key])
    return f"{random} / {stock} / {steering}{mine} / {kep}{best}"


def _arrow(difference: Estimate) -> str:
    return "" if not difference.differs_from_zero else " ↑" if difference.mean > 0 else " ↓"


def _render(rows: Sequence[Sequence[str]], headings: Sequence[str], style: str) -> str:
    align = ["left" if str(one) in LEFT else "right" for one in headings]
    text = tabulate(rows, headers=list(headings), tablefmt=style, disable_numparse=True, colalign=align)
    return "\n".join(line.rstrip() for line in text.splitlines())


def as_json(
    results: Sequence[Result],
    short: Sequence[ShortResult],
    looks: Sequence[SecondLook],
    *,
    effort: Effort,
) -> str:
    """Return everything, with the values of each seed; keys are described in ``docs/fragmentation.md``."""
    document = {
        "seeds": effort.seeds,
        "jobs": effort.jobs,
        "warmUp": effort.warm_up,
        "results": [entry for result in results for entry in _long_entries(result)],
        "short": [entry for one in short for entry in _short_entries(one)],
        "secondLook": [entry for one in looks for entry in _second_entries(one)],
    }
    return json.dumps(document, indent=1)


def _long_entries(result: Result) -> Iterator[dict[str, Any]]:
    rows = [row for table in tables_of(result) for row in table.rows]
    for row, seeds in zip(rows, result.values, strict=True):
        yield {
            "world": result.world.name,
            "load": result.load,
            "topologyManagerPolicy": row.arm.policy,
            "arm": row.arm.name,
            "measures": {
                one.key: {
                    **_estimate(row.values[one.key]),
                    "difference": _estimate(row.differences[one.key]),
                    "seeds": [round(values[one.key], 4) for values in seeds],
                }
                for one in MEASURES
            },
        }


def _short_entries(result: ShortResult) -> Iterator[dict[str, Any]]:
    for row in short_rows(result):
        yield {
            "world": result.world.name,
            "load": result.load,
            "topologyManagerPolicy": row.policy,
            "arm": row.name,
            "alignedOfOptimum": _estimate(row.of_optimum),
            "tracesPlacedPerfectly": _estimate(row.reached),
        }


def _second_entries(look: SecondLook) -> Iterator[dict[str, Any]]:
    for key, second in look.differences.items():
        yield {
            "world": look.row.world.name,
            "load": look.row.load,
            "topologyManagerPolicy": look.row.steering.policy,
            "arm": look.row.steering.name,
            "measure": key,
            "traces": look.traces,
            "first": _estimate(look.row.higher[key][0]),
            "second": _estimate(second),
        }


def _estimate(value: Estimate) -> dict[str, float]:
    return {"mean": round(value.mean, 4), "halfWidth": round(value.half_width, 4)}
