"""The dashboard's file, as Grafana reads it."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from typing import Any

import pytest
from chart_tools import ROOT
from dashboards import CHOSEN, DASHBOARD, TEXT, panels
from numaplace.metrics import Metrics

EVERY = list(panels())
# Ids of @grafana/data's value formats.
UNITS = {"short", "percent", "percentunit", "s", "ops", "reqps", "bytes"}


def test_file_is_what_its_description_makes() -> None:
    done = subprocess.run([sys.executable, "-m", "charts.dashboard", "--check"], cwd=ROOT, check=False)
    assert done.returncode == 0


def test_ids_and_names_are_unique() -> None:
    numbers = [panel["id"] for panel in (*DASHBOARD["panels"], *EVERY)]
    assert len({*numbers}) == len(DASHBOARD["panels"]) + sum(
        len(one.get("panels", ())) for one in DASHBOARD["panels"]
    )
    titles = [panel["title"] for panel in EVERY]
    assert len(set(titles)) == len(titles)


def test_panels_have_places_of_their_own() -> None:
    taken: set[tuple[int, int]] = set()
    for one in DASHBOARD["panels"]:
        place = one["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (place["x"] + right, place["y"] + down)
            for right in range(place["w"])
            for down in range(place["h"])
        }
        assert not cells & taken, one["title"]
        taken |= cells
    rows = {down for _, down in taken}
    assert rows == set(range(len(rows))), "gaps between rows"


def test_panels_of_a_closed_row_lie_below_it_and_apart() -> None:
    for row in DASHBOARD["panels"]:
        for one, other in itertools.combinations([panel["gridPos"] for panel in row.get("panels", ())], 2):
            beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
            above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
            assert beside or above
        assert all(panel["gridPos"]["y"] > row["gridPos"]["y"] for panel in row.get("panels", ()))


@pytest.mark.parametrize("panel", EVERY, ids=lambda panel: panel["title"])
def test_a_panel_says_what_it_is(panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    references = [target["refId"] for target in panel["targets"]]
    assert references
    assert len(set(references)) == len(references)
    for target in panel["targets"]:
        assert target["datasource"] == panel["datasource"]
        assert target["instant"] != target["range"]
        assert (panel["type"] == "timeseries") == target["range"]


def test_every_query_heeds_what_is_chosen_above() -> None:
    for panel in EVERY:
        for target in panel["targets"]:
            selectors = re.findall(r"(?:numaplace|process)_\w+\{([^}]*)\}", target["expr"])
            assert selectors
            assert all('job=~"$job",node=~"$node"' in one for one in selectors), target["expr"]
            assert len(re.findall(r"(?:numaplace|process)_\w+", target["expr"])) == len(selectors)


def test_every_variable_is_known_and_used() -> None:
    variables = {f"${one['name']}" for one in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\w+", " ".join(target["expr"] for one in EVERY for target in one["targets"])))
    assert used == CHOSEN.keys()
    assert used - {"$__rate_interval"} == variables - {"$datasource"}
    assert "${datasource}" in TEXT


def test_all_nodes_are_one_short_matcher() -> None:
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            assert variable["allValue"] == ".*"


def test_only_the_row_of_single_nodes_names_every_node() -> None:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            by_node = "{{node}}" in target["legendFormat"]
            assert not by_node or target["expr"].startswith("topk(10,"), panel["title"]


def test_every_metric_of_the_daemon_is_shown() -> None:
    metrics = Metrics(version="1.2.3", clock=lambda: 0.0)
    shown = " ".join(target["expr"] for one in EVERY for target in one["targets"])
    missing = [
        name
        for name in metrics.names()
        if name.startswith("numaplace") and not re.search(rf"{name}(_bucket)?\{{", shown)
    ]
    assert missing == []
