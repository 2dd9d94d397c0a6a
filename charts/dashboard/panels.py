"""The kinds of panels of the dashboard, and their layout.

Grafana's grid is 24 wide. A panel is described without its place; ``lay_out`` fills rows from left to right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH = 24
GREEN, YELLOW, RED, BLUE = "green", "yellow", "red", "blue"

NODE_LINK = {
    "title": "Show this node only",
    "url": "/d/numaplace?${__url_time_range}&${datasource:queryparam}&${job:queryparam}"
    "&${resource:queryparam}&var-node=${__value.raw}",
}


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. ``queries`` are legend -> PromQL; in a table the legend is the column of its value.

    ``steps`` are the colours from a value on, the first from the lowest; none: one colour per series.
    """

    kind: str
    title: str
    description: str
    queries: Mapping[str, str]
    unit: str = "short"
    width: int = 8
    height: int = 8
    steps: Sequence[tuple[float | None, str]] = ()
    stacked: bool = False
    decimals: int | None = None
    maximum: float | None = None
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Row:
    """A heading and its panels. A ``closed`` one runs no queries until it is opened."""

    title: str
    panels: Sequence[Panel]
    closed: bool = False


def lay_out(rows: Iterable[Row]) -> list[Json]:
    """Return the panels as Grafana has them, with ids from 1 on and places without gaps or overlaps."""
    made: list[Json] = []
    top = 0
    number = 0
    for row in rows:
        number += 1
        heading: Json = {
            "id": number,
            "type": "row",
            "title": row.title,
            "collapsed": row.closed,
            "gridPos": {"x": 0, "y": top, "w": WIDTH, "h": 1},
            "panels": [],
        }
        inner: list[Json] = []
        left, line, deepest = 0, top + 1, 0
        for panel in row.panels:
            if left + panel.width > WIDTH:
                left, line, deepest = 0, line + deepest, 0
            number += 1
            place = {"x": left, "y": line, "w": panel.width, "h": panel.height}
            inner.append({"id": number, "gridPos": place, **_drawn(panel)})
            left, deepest = left + panel.width, max(deepest, panel.height)
        if row.closed:
            heading["panels"] = inner
            made.append(heading)
            top += 1
        else:
            made += [heading, *inner]
            top = line + deepest
    return made


def _drawn(panel: Panel) -> Json:
    defaults: Json = {"unit": panel.unit, "custom": {}}
    if panel.decimals is not None:
        defaults["decimals"] = panel.decimals
    if panel.unit == "percentunit":
        defaults |= {"min": 0, "max": 1}
    if panel.maximum is not None:
        defaults |= {"min": 0, "max": panel.maximum}
    if panel.steps:
        steps = [{"value": value, "color": color} for value, color in panel.steps]
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
        defaults["color"] = {"mode": "thresholds"}
    drawn = {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "targets": list(_targets(panel)),
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {},
    }
    _KINDS[panel.kind](panel, drawn)
    return drawn


def _targets(panel: Panel) -> Iterable[Json]:
    table = panel.kind == "table"
    for number, (legend, query) in enumerate(panel.queries.items()):
        instant = panel.kind != "timeseries"
        yield {
            "refId": chr(ord("A") + number),
            "datasource": SOURCE,
            "expr": query,
            "legendFormat": legend,
            "instant": instant,
            "range": not instant,
            "format": "table" if table else "time_series",
        }


def _stat(panel: Panel, drawn: Json) -> None:
    drawn["options"] = {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "background" if panel.steps else "value",
        "graphMode": "none",
        "textMode": "value",
        "justifyMode": "center",
    }


def _timeseries(panel: Panel, drawn: Json) -> None:
    custom = {
        "drawStyle": "line",
        "lineWidth": 1,
        "fillOpacity": 40 if panel.stacked else 10,
        "showPoints": "never",
        "spanNulls": False,
        "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
    }
    if panel.steps:
        custom["thresholdsStyle"] = {"mode": "line"}
        drawn["fieldConfig"]["defaults"]["color"] = {"mode": "palette-classic"}
    drawn["fieldConfig"]["defaults"]["custom"] = custom
    drawn["fieldConfig"]["defaults"].setdefault("min", 0)
    drawn["options"] = {
        "legend": {
            "showLegend": True,
            "displayMode": "table",
            "placement": "bottom",
            "calcs": ["lastNotNull", "max"],
        },
        "tooltip": {"mode": "multi", "sort": "desc"},
    }


def _bargauge(panel: Panel, drawn: Json) -> None:
    del panel
    drawn["options"] = {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "orientation": "horizontal",
        "displayMode": "gradient",
        "showUnfilled": True,
    }


def _table(panel: Panel, drawn: Json) -> None:
    values = {f"Value #{target['refId']}": target["legendFormat"] for target in drawn["targets"]}
    if len(values) == 1:
        values = {"Value": next(iter(values.values()))}
    names = {**panel.columns, **values}
    drawn["transformations"] = [
        {"id": "merge", "options": {}},
        {
            "id": "organize",
            "options": {
                "excludeByName": {"Time": True},
                "indexByName": {name: number for number, name in enumerate(names)},
                "renameByName": names,
            },
        },
    ]
    drawn["options"] = {"showHeader": True, "cellHeight": "sm"}
    drawn["fieldConfig"]["defaults"]["custom"] = {"align": "auto", "filterable": True}
    if "node" in panel.columns:
        node = {"id": "byName", "options": panel.columns["node"]}
        drawn["fieldConfig"]["overrides"] = [
            {"matcher": node, "properties": [{"id": "links", "value": [NODE_LINK]}]}
        ]


_KINDS = {"stat": _stat, "timeseries": _timeseries, "bargauge": _bargauge, "table": _table}
