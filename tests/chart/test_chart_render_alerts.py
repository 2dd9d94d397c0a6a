"""What the values make of the alerts; what these do is in test_chart_prometheus_alerts.py."""

from __future__ import annotations

import re
from typing import Any

import pytest
from chart_tools import CASES, Rendered, template


def alerts() -> list[dict[str, Any]]:
    rule = Rendered(template(CASES / "values/everything.yaml")).one("PrometheusRule")
    return [alert for group in rule["spec"]["groups"] for alert in group["rules"]]


def test_values_reach_the_expressions() -> None:
    by_name: dict[str, list[dict[str, Any]]] = {}
    for alert in alerts():
        by_name.setdefault(alert["alert"], []).append(alert)
    assert by_name["NumaplaceSnapshotStale"][0]["expr"].endswith("> 90")
    assert by_name["NumaplaceSlowDecisions"][0]["expr"].endswith("> 0.1")
    sizes = [
        set(re.findall(r"[<>]=? (\d+)$", alert["expr"], re.M)) for alert in by_name["NumaplaceFragmented"]
    ]
    assert sizes == [{"4"}, {"8"}]
    assert [alert["labels"]["size"] for alert in by_name["NumaplaceFragmented"]] == ["4", "8"]


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
    assert alert["labels"]["team"] == "nodes"
    assert int(alert.get("for", "1m").removesuffix("m")) > 0
