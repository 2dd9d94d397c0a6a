"""Draws the four kinds of panels as SVG and HTML, about as Grafana would."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

COLORS = (
    "#73bf69",
    "#f2cc0c",
    "#8ab8ff",
    "#ff780a",
    "#f2495c",
    "#5794f2",
    "#b877d9",
    "#56a64b",
    "#fade2a",
    "#c0d8ff",
)
NAMED = {"green": "#56a64b", "yellow": "#e0b400", "red": "#e02f44", "blue": "#3274d9"}
LEGEND_LINES = 5


@dataclass(frozen=True, slots=True)
class Line:
    """A series as a panel shows it; points are (seconds, value), an instant value is one point."""

    name: str
    labels: Mapping[str, str]
    points: Sequence[tuple[float, float]]

    @property
    def last(self) -> float:
        return self.points[-1][1]


def shown(value: float, defaults: Mapping[str, Any]) -> str:
    return text_of(value, defaults["unit"], defaults.get("decimals"))


def text_of(value: float, unit: str, decimals: int | None = None) -> str:
    """Return the value in the unit, short."""
    if math.isnan(value):
        return "-"
    if unit == "percentunit":
        return f"{value * 100:.0f}%"
    if unit == "percent":
        return f"{value:.0f}%"
    if unit == "s":
        return f"{value * 1000:.3g} ms" if value < 1 else f"{value:.3g} s"
    if unit == "bytes":
        return f"{value / 2**20:.0f} MiB"
    suffix = {"ops": " ops/s", "reqps": " req/s"}.get(unit, "")
    if decimals is not None and value < 1e5:
        return f"{value:.{decimals}f}{suffix}"
    return f"{value:.3g}{suffix}" if value < 1e5 else f"{value / 2**30:.0f} Gi"


def color_of(value: float, defaults: Mapping[str, Any]) -> str:
    """Return the colour of the highest step that the value has reached."""
    steps = defaults.get("thresholds", {}).get("steps", [])
    reached = [step["color"] for step in steps if step["value"] is None or value >= step["value"]]
    return NAMED[reached[-1]] if reached else NAMED["blue"]


def stat(lines: Sequence[Line], defaults: Mapping[str, Any], width: int, height: int) -> str:
    value = lines[0].last if lines else math.nan
    return (
        f'<div class="stat" style="background:{color_of(value, defaults)};width:{width}px;height:{height}px">'
        f"{shown(value, defaults)}</div>"
    )


def bargauge(lines: Sequence[Line], defaults: Mapping[str, Any], width: int, height: int) -> str:
    top = defaults.get("max") or max((line.last for line in lines), default=1) or 1
    rows = []
    for line in lines[: max(1, height // 22)]:
        share = 0 if math.isnan(line.last) else min(1, line.last / top)
        rows.append(
            f'<div class="bar"><span class="name">{html.escape(line.name)}</span>'
            f'<span class="track"><i style="width:{share * 100:.1f}%;'
            f'background:{color_of(line.last, defaults)}"></i></span>'
            f"<b>{shown(line.last, defaults)}</b></div>"
        )
    return f'<div style="width:{width}px">{"".join(rows) or NOTHING}</div>'


def table(
    columns: Sequence[tuple[str, str]],
    rows: Sequence[Mapping[str, Any]],
    defaults: Mapping[str, Any],
    height: int,
) -> str:
    head = "".join(f"<th>{html.escape(heading)}</th>" for _, heading in columns)
    body = "".join(
        "<tr>"
        + "".join(
            f"<td>{html.escape(value if isinstance(value, str) else shown(value, defaults))}</td>"
            for value in (row.get(key, "") for key, _ in columns)
        )
        + "</tr>"
        for row in rows[: height // 24 - 1]
    )
    return f"<table><tr>{head}</tr>{body}</table>" if rows else NOTHING


NOTHING = '<div class="nothing">No data</div>'


def timeseries(
    lines: Sequence[Line], defaults: Mapping[str, Any], span: tuple[float, float], width: int, height: int
) -> str:
    """Draw lines, or areas on top of each other, with a legend of the largest."""
    lines = [line for line in lines if line.points]
    if not lines:
        return NOTHING
    stacked = defaults["custom"]["stacking"]["mode"] == "normal"
    named = sorted(lines, key=lambda line: -line.last)[:LEGEND_LINES]
    plot = height - 17 * len(named) - 22
    floor: dict[float, float] = {}
    curves = []
    for line in _whole(lines) if stacked else lines:
        tops = [(at, value + floor.get(at, 0) if stacked else value) for at, value in line.points]
        bottoms = [(at, floor.get(at, 0.0)) for at, _ in line.points]
        if stacked:
            floor |= dict(tops)
        curves.append((tops, bottoms))
    top = max((value for tops, _ in curves for _, value in tops if not math.isnan(value)), default=1) * 1.05
    top = defaults.get("max") or (top if top > 0 else 1)

    def place(at: float, value: float) -> str:
        right = 52 + (at - span[0]) / (span[1] - span[0]) * (width - 60)
        return f"{right:.1f},{plot + 4 - min(value, top) / top * plot:.1f}"

    drawn = [_grid(top, defaults["unit"], width, plot)]
    for number, (tops, bottoms) in enumerate(curves):
        color = COLORS[number % len(COLORS)]
        known = [(one, other) for one, other in zip(tops, bottoms, strict=True) if not math.isnan(one[1])]
        if not known:
            continue
        path = " ".join(place(*one) for one, _ in known)
        if stacked:
            back = " ".join(place(*other) for _, other in reversed(known))
            drawn.append(f'<polygon points="{path} {back}" fill="{color}" fill-opacity=".4"/>')
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.3"/>')
    legend = "".join(
        f'<div class="legend"><i style="background:{COLORS[lines.index(line) % len(COLORS)]}"></i>'
        f"{html.escape(line.name)}<b>{shown(line.last, defaults)}</b></div>"
        for line in named
    )
    return f'<svg width="{width}" height="{plot + 10}">{"".join(drawn)}</svg>{legend}'


def _whole(lines: Sequence[Line]) -> list[Line]:
    """Return the series with 0 where one has no point and others have: a count of none is no sample."""
    times = sorted({at for line in lines for at, _ in line.points})
    whole = []
    for line in lines:
        known = dict(line.points)
        whole.append(Line(line.name, line.labels, [(at, known.get(at, 0.0)) for at in times]))
    return whole


def _grid(top: float, unit: str, width: int, plot: int) -> str:
    marks = []
    for quarter in range(5):
        up = plot + 4 - quarter / 4 * plot
        # A rate's unit would not fit; it is in the legend.
        text = text_of(top * quarter / 4, "short" if unit in ("ops", "reqps") else unit)
        marks.append(f'<line x1="52" x2="{width - 8}" y1="{up:.0f}" y2="{up:.0f}" stroke="#2c3235"/>')
        marks.append(f'<text x="48" y="{up + 4:.0f}" text-anchor="end">{text}</text>')
    return "".join(marks)
