"""Reads the dashboard's JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from chart_tools import CHART

TEXT = (CHART / "dashboards/numaplace.json").read_text()
DASHBOARD: dict[str, Any] = json.loads(TEXT)

CHOSEN = {"$job": ".*", "$node": ".*", "$resource": ".*", "$size": "4", "$__rate_interval": "2m"}


def panels() -> Iterator[dict[str, Any]]:
    """Give every panel, of closed rows too, but no heading."""
    for panel in DASHBOARD["panels"]:
        if panel["type"] == "row":
            yield from panel["panels"]
        else:
            yield panel


def filled_in(query: str) -> str:
    """Return the query as Grafana sends it."""
    for name, value in CHOSEN.items():
        query = query.replace(name, value)
    return query


def queries() -> dict[str, str]:
    """Return what the panels ask, by panel and legend."""
    return {
        f"{panel['title']} / {target['legendFormat']}": filled_in(target["expr"])
        for panel in panels()
        for target in panel["targets"]
    }
