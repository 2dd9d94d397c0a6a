"""Writes the dashboard as one HTML page, its panels filled by a Prometheus.

::

    python -m charts.dashboard.preview http://127.0.0.1:9090 page.html [minutes [node=a rows=Fleet …]]

This is not Grafana: it draws the same queries, titles, places, units and colours in a plain way.
"""

from __future__ import annotations

import html
import json
import re
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from charts.dashboard.preview import draw

FILE = Path(__file__).parents[2] / "numaplace/dashboards/numaplace.json"
CHOSEN = {"job": ".*", "node": ".*", "resource": ".*", "size": "4"}
POINTS = 180
CELL, LINE, GAP = 66, 36, 8
STYLE = """
body{background:#111217;color:#ccccdc;font:13px "DejaVu Sans",sans-serif;margin:12px;position:relative}
.panel{position:absolute;background:#181b1f;border:1px solid #2c3235;border-radius:3px;overflow:hidden}
.panel h3{font-size:13px;font-weight:600;margin:5px 8px}
.row{position:absolute;font-size:15px;font-weight:600;padding-top:7px}
.stat{display:flex;align-items:center;justify-content:center;font-size:34px;color:#fff}
.nothing{color:#7b8087;text-align:center;padding-top:30px}
svg text{fill:#9fa7b3;font-size:10px}
.legend{font-size:11px;height:17px;padding:0 10px;white-space:nowrap}
.legend i{display:inline-block;width:14px;height:4px;margin:0 6px 3px 0}
.legend b,.bar b{float:right}
.bar{height:22px;padding:0 10px;font-size:11px;white-space:nowrap}
.bar .name{display:inline-block;width:44%;overflow:hidden;vertical-align:middle}
.bar .track{display:inline-block;width:38%;height:12px;background:#22252b;vertical-align:middle}
.bar .track i{display:block;height:12px}
table{border-collapse:collapse;width:100%;font-size:11px}
td{white-space:nowrap}
th,td{text-align:left;padding:3px 8px;border-bottom:1px solid #2c3235}
th{color:#8ab8ff;font-weight:600}
"""


class Source:
    """A Prometheus, queried over the last minutes."""

    def __init__(self, url: str, *, minutes: float, chosen: Mapping[str, str], now_seconds: float) -> None:
        self._url = url
        self._chosen = {**CHOSEN, **chosen, "__rate_interval": "1m"}
        self.span = (now_seconds - minutes * 60, now_seconds)

    def lines(self, target: Mapping[str, Any]) -> list[draw.Line]:
        query = re.sub(r"\$(\w+)", lambda match: self._chosen[match[1]], target["expr"])
        if target["range"]:
            step = max(1, (self.span[1] - self.span[0]) / POINTS)
            asked = {"query": query, "start": self.span[0], "end": self.span[1], "step": step}
            found = self._get("query_range", asked)
        else:
            found = self._get("query", {"query": query, "time": self.span[1]})
        return [self._line(one, target["legendFormat"]) for one in found]

    def _line(self, found: Mapping[str, Any], legend: str) -> draw.Line:
        labels = found["metric"]
        name = re.sub(r"{{(\w+)}}", lambda match: labels.get(match[1], ""), legend)
        points = found["values"] if "values" in found else [found["value"]]
        return draw.Line(name, labels, [(float(at), float(value)) for at, value in points])

    def _get(self, what: str, asked: Mapping[str, Any]) -> list[dict[str, Any]]:
        url = f"{self._url}/api/v1/{what}?{urllib.parse.urlencode(asked)}"
        with urllib.request.urlopen(url, timeout=30) as reply:  # noqa: S310 - the URL is the caller's
            result: list[dict[str, Any]] = json.load(reply)["data"]["result"]
        return result


def body(panel: Mapping[str, Any], source: Source, width: int, height: int) -> str:
    defaults = panel["fieldConfig"]["defaults"]
    if panel["type"] == "table":
        return _table(panel, source, height)
    lines = [line for target in panel["targets"] for line in source.lines(target)]
    if panel["type"] == "timeseries":
        return draw.timeseries(lines, defaults, source.span, width, height)
    request = {"stat": draw.stat, "bargauge": draw.bargauge}[panel["type"]]
    return request(lines, defaults, width, height)


def _table(panel: Mapping[str, Any], source: Source, height: int) -> str:
    (names,) = [one["options"]["renameByName"] for one in panel["transformations"] if one["id"] == "organize"]
    keys = [name for name in names if not name.startswith("Value")]
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for target in panel["targets"]:
        for line in source.lines(target):
            row = {key: line.labels.get(key, "") for key in keys}
            rows.setdefault(tuple(row.values()), row)[target["legendFormat"]] = line.last
    columns = [(key, names[key]) for key in keys]
    columns += [(target["legendFormat"], target["legendFormat"]) for target in panel["targets"]]
    return draw.table(columns, list(rows.values()), panel["fieldConfig"]["defaults"], height)


def wanted(dashboard: Mapping[str, Any], rows: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Give headings and panels of the rows whose titles begin so, moved up; all if none is named."""
    top, up, shown = 0, 0, True
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            shown = not rows or panel["title"].startswith(tuple(rows))
            up = panel["gridPos"]["y"] - top
        if shown:
            place = panel["gridPos"]
            moved = {**place, "y": place["y"] - up}
            top = max(top, moved["y"] + place["h"])
            yield {**panel, "gridPos": moved, "panels": [_moved(one, up) for one in panel.get("panels", ())]}


def _moved(panel: dict[str, Any], up: int) -> dict[str, Any]:
    return {**panel, "gridPos": {**panel["gridPos"], "y": panel["gridPos"]["y"] - up}}


def page(dashboard: Mapping[str, Any], source: Source, rows: Sequence[str] = ()) -> str:
    drawn = []
    moved = lowest = 0
    for top in wanted(dashboard, rows):
        opened = top["panels"]
        for panel in (top, *opened):
            place = panel["gridPos"]
            left, up = place["x"] * CELL, (place["y"] + moved) * LINE
            width, height = place["w"] * CELL - GAP, place["h"] * LINE - GAP
            lowest = max(lowest, up + height)
            title = html.escape(re.sub(r"\$(\w+)", lambda match: CHOSEN[match[1]], panel["title"]))
            where = f"left:{left}px;top:{up}px"
            if panel["type"] == "row":
                drawn.append(f'<div class="row" style="{where}">▾ {title}</div>')
            else:
                inner = body(panel, source, width - 2, height - 30)
                size = f"width:{width}px;height:{height}px"
                drawn.append(f'<div class="panel" style="{where};{size}"><h3>{title}</h3>{inner}</div>')
        if opened:
            moved += (
                max(one["gridPos"]["y"] + one["gridPos"]["h"] for one in opened) - top["gridPos"]["y"] - 1
            )
    height = f"height:{lowest + 12}px;width:{24 * CELL}px"
    head = f'<!doctype html><meta charset="utf-8"><title>numaplace</title><style>{STYLE}</style>'
    return f'{head}<body style="{height}">{"".join(drawn)}</body>\n'


def _chosen(arguments: list[str]) -> Iterator[tuple[str, str]]:
    for one in arguments:
        name, _, value = one.partition("=")
        yield name, value


def main(url: str, file: str, minutes: str = "30", *chosen: str) -> None:
    values = dict(_chosen(list(chosen)))
    rows = [one for one in values.pop("rows", "").split(",") if one]
    source = Source(url, minutes=float(minutes), chosen=values, now_seconds=time.time())
    Path(file).write_text(page(json.loads(FILE.read_text()), source, rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
