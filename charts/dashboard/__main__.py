"""Writes the chart's Grafana dashboard; ``--check`` changes nothing and fails when it is not current.

::

    python -m charts.dashboard
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from charts.dashboard import daemons, nodes, steering
from charts.dashboard.panels import SOURCE, Json, lay_out

ROWS = (
    nodes.FLEET,
    nodes.CAPACITY,
    nodes.FRAGMENTATION,
    daemons.DECISIONS,
    steering.STEERING,
    daemons.DEVICES,
    daemons.KUBELET,
    daemons.API_SERVER,
    nodes.ONE_NODE,
)
FILE = Path(__file__).parents[1] / "numaplace/dashboards/numaplace.json"


LABEL_VALUES, ALPHABETICAL = 1, 1
"""Grafana's numbers for a query of a label's values, and for their order."""


def _variable(name: str, label: str, query: str) -> Json:
    """Return a variable with the values of a label; ``All`` is one short regular expression."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "query": {"qryType": LABEL_VALUES, "query": query, "refId": name},
        "definition": query,
        "refresh": 2,
        "sort": ALPHABETICAL,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


ALERTS = {
    "name": "Alerts",
    "datasource": SOURCE,
    "enable": False,
    "iconColor": "red",
    "expr": 'ALERTS{alertname=~"Numaplace.+",alertstate="firing",node=~"$node"}',
    "titleFormat": "{{alertname}}",
    "textFormat": "{{node}} {{resource}}",
}
"""Alerts that fire, marked on all panels when switched on above them."""


def variables() -> list[Json]:
    sizes = ["2", "4", "8", "16"]
    here = 'job=~"$job"'
    return [
        {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
        _variable("job", "Job", "label_values(numaplace_build_info, job)"),
        _variable("node", "Node", f"label_values(numaplace_build_info{{{here}}}, node)"),
        _variable(
            "resource", "Resource", f'label_values(numaplace_allocatable{{{here},node=~"$node"}}, resource)'
        ),
        {
            "name": "size",
            "label": "Request size",
            "type": "custom",
            "query": ",".join(sizes),
            "current": {"selected": True, "text": "4", "value": "4"},
            "options": [{"selected": size == "4", "text": size, "value": size} for size in sizes],
        },
    ]


def dashboard() -> Json:
    return {
        "uid": "numaplace",
        "title": "numaplace",
        "description": "Where devices are placed by NUMA node, and what stands in the way.",
        "tags": ["numaplace", "kubernetes", "numa"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "1m",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "browser",
        "links": [],
        "annotations": {"list": [ALERTS]},
        "templating": {"list": variables()},
        "panels": lay_out(ROWS),
    }


def main(arguments: list[str]) -> int:
    """Write the file, or with ``--check`` only compare; return the exit code."""
    wanted = json.dumps(dashboard(), indent=1) + "\n"
    if FILE.exists() and FILE.read_text() == wanted:
        return 0
    if "--check" in arguments:
        sys.stderr.write(f"{FILE}: is not current: run 'python -m charts.dashboard'\n")
        return 1
    FILE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
