"""Alerts use metrics and labels that the daemon has."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from chart_tools import CASES, ROOT, Rendered, template

ROWS = re.findall(
    r"^\| `(numaplace_\w+)` \| (\w+) \| ([^|]*)\|", (ROOT / "docs/metrics.md").read_text(), re.M
)
LABELS = {name: set(re.findall(r"`(\w+)`", labels)) for name, _, labels in ROWS}
# From the PodMonitor's relabelling.
FROM_PROMETHEUS = {"node"}


def alerts() -> list[dict[str, Any]]:
    rule = Rendered(template(CASES / "values/everything.yaml")).one("PrometheusRule")
    return [alert for group in rule["spec"]["groups"] for alert in group["rules"]]


def metrics_of(expression: str) -> set[str]:
    return set(re.findall(r"numaplace_\w+", expression))


def test_metrics_exist_with_the_labels_that_are_used() -> None:
    for alert in alerts():
        metrics = metrics_of(alert["expr"])
        assert metrics <= LABELS.keys()
        known = set().union(*(LABELS[metric] for metric in metrics)) | FROM_PROMETHEUS
        matched = set(re.findall(r"(\w+)=~?\"", alert["expr"]))
        grouped = {
            label
            for group in re.findall(r"(?:by|on) \(([^)]*)\)", alert["expr"])
            for label in group.split(", ")
        }
        shown = set(re.findall(r"\$labels\.(\w+)", str(alert["annotations"])))
        assert matched | grouped | shown <= known, alert["alert"]
        assert not grouped or shown <= grouped, f"{alert['alert']}: labels that the expression drops"


def test_what_operators_have_to_know_has_an_alert() -> None:
    watched = set().union(*(metrics_of(alert["expr"]) for alert in alerts()))
    assert watched >= {
        "numaplace_registered",
        "numaplace_fallbacks_total",
        "numaplace_snapshot_age_seconds",
        "numaplace_devices",
        "numaplace_largest_single_node_fit",
    }


def test_values_reach_the_expressions() -> None:
    by_name: dict[str, list[dict[str, Any]]] = {}
    for alert in alerts():
        by_name.setdefault(alert["alert"], []).append(alert)
    assert by_name["NumaplaceSnapshotStale"][0]["expr"].endswith("> 90")
    sizes = [re.search(r"< (\d+)$", alert["expr"]) for alert in by_name["NumaplaceFragmented"]]
    assert [size and size[1] for size in sizes] == ["4", "8"]


@pytest.mark.parametrize("kind", ["PodMonitor", "ServiceMonitor"])
def test_prometheus_is_told_the_node(kind: str) -> None:
    other = (
        "--set",
        "podMonitor.enabled=false,serviceMonitor.enabled=true,serviceMonitor.labels.release=prometheus",
    )
    arguments = other if kind == "ServiceMonitor" else ()
    monitor = Rendered(template(CASES / "values/everything.yaml", *arguments)).one(kind)
    endpoints = {"PodMonitor": "podMetricsEndpoints", "ServiceMonitor": "endpoints"}
    (endpoint,) = monitor["spec"][endpoints[kind]]
    assert endpoint["relabelings"] == [
        {"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"}
    ]
    assert (endpoint["port"], endpoint["path"]) == ("http", "/metrics")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_alerts_say_what_it_means(alert: dict[str, Any]) -> None:
    assert alert["annotations"].keys() == {"summary", "description"}
    assert alert["labels"]["severity"] in {"info", "warning", "critical"}
    assert yaml.safe_load(alert["for"].removesuffix("m")) > 0
