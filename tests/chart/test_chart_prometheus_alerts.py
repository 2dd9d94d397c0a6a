"""The alerts in Prometheus's own promtool: what each waits for and says, and that a healthy node has none."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import live_series
import pytest
import yaml
from chart_tools import CASES, ROOT, Rendered, render, template
from prometheus_tools import ask, promtool, unknown
from yaml_text import read_yaml

TESTS = read_yaml((CASES / "alerts.yaml").read_text())
TEAM = {"team": "nodes"}
# Of Prometheus itself.
UP = "up"


@cache
def rules(values: Path = CASES / "values/everything.yaml") -> dict[str, Any]:
    return Rendered(template(values)).one("PrometheusRule")["spec"]


@cache
def alerts() -> dict[str, dict[str, Any]]:
    """The last of those with one name wins: only sizes differ in them."""
    return {one["alert"]: one for group in rules()["groups"] for one in group["rules"]}


def run(folder: Path, tests: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    """Run all tests in one promtool, and return what it says of those that fail."""
    (folder / "rules.yaml").write_text(yaml.safe_dump(rules()))
    files = []
    for number, (name, test) in enumerate(tests.items()):
        group = {"name": name, "interval": "1m", **test}
        document = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [group]}
        file = folder / f"{number}.yaml"
        file.write_text(yaml.safe_dump(document))
        files.append(str(file))
    done = promtool("test", "rules", "--junit", str(folder / "junit.xml"), *files, check=False)
    suites = list(ElementTree.parse(folder / "junit.xml").getroot().iter("testsuite"))
    assert [suite.get("name") for suite in suites] == files, done
    found = {name: "".join(suite.itertext()).strip() for name, suite in zip(tests, suites, strict=True)}
    return {name: text for name, text in found.items() if text}


def inputs(series: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"series": name, "values": values} for name, values in series.items()]


def firing(at: str, samples: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a test that exactly these alerts fire."""
    expected = [
        {
            "labels": f"ALERTS{{{','.join(f'{name}={json.dumps(text)}' for name, text in one.items())}}}",
            "value": 1,
        }
        for one in samples
    ]
    return {"expr": 'ALERTS{alertstate="firing"}', "eval_time": at, "exp_samples": expected}


def test_promtool_finds_nothing_to_say(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump(rules()))
    assert "rules found" in promtool("check", "rules", "--lint=all", "--lint-fatal", str(file))


def test_metrics_and_labels_are_the_daemons() -> None:
    wrong = {
        alert: unknown(answer) for alert, answer in ask({n: a["expr"] for n, a in alerts().items()}).items()
    }
    assert {
        alert: [one for one in found if not one.startswith(UP)] for alert, found in wrong.items() if found
    } == {
        "NumaplaceDown": [],
        "NumaplaceAbsent": [],
    }


def name_of(case: dict[str, Any]) -> str:
    return f"{case['alert']} {case.get('id', '')}".strip()


def test_of(case: dict[str, Any], rule: dict[str, Any]) -> dict[str, Any]:
    alert = case["alert"]
    series = case["series"] if alert == "NumaplaceAbsent" else {**ALWAYS, **case["series"]}
    shown = {**case.get("labelsOfExpression", {}), **case["labels"], **TEAM}
    # The last of the sizes wins in `alerts`.
    description = rule["annotations"]["description"].replace("8", case["labels"].get("size", "8"))
    said = {"summary": case["summary"], "description": description}
    return {
        "input_series": inputs(series),
        "promql_expr_test": [
            firing(case["quiet"], []),
            firing(case["fires"], [{"alertname": alert, "alertstate": "firing", **shown}]),
        ],
        "alert_rule_test": [
            {
                "eval_time": case["fires"],
                "alertname": alert,
                "exp_alerts": [{"exp_labels": shown, "exp_annotations": said}],
            }
        ],
    }


test_of.__test__ = False  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    known = alerts()
    tests = {name_of(case): test_of(case, known[case["alert"]]) for case in TESTS}
    assert len(tests) == len(TESTS)
    return run(tmp_path_factory.mktemp("alerts"), tests)


@pytest.mark.parametrize("case", TESTS, ids=name_of)
def test_an_alert_fires_when_it_should_and_says_what_it_is(
    case: dict[str, Any], failed: dict[str, str]
) -> None:
    assert failed.get(name_of(case)) is None


def test_a_test_that_should_fail_does(tmp_path: Path) -> None:
    case = TESTS[0] | {"summary": "numaplace on n2 does not answer"}
    wrong = {
        "too early": test_of(TESTS[0] | {"fires": TESTS[0]["quiet"]}, alerts()[case["alert"]]),
        "other words": test_of(case, alerts()[case["alert"]]),
    }
    assert run(tmp_path, wrong).keys() == wrong.keys()


# Another node, whose daemon is there.
ALWAYS = {'up{job="numa/np-numaplace",node="n9",pod="z"}': "1x80"}


def test_every_alert_has_a_test() -> None:
    assert {case["alert"] for case in TESTS} == alerts().keys()


def test_a_healthy_node_has_no_alert_and_a_sick_one_has_them_all(tmp_path: Path) -> None:
    lines = [re.fullmatch(r"  (\S+?\}) (\S+)", line) for line in live_series.load().splitlines()[1:]]
    series = {match[1]: match[2] for match in lines if match}
    assert len(series) == len(lines)
    up = {f'up{{job="{live_series.JOB}",node="fine"}}': "1x200"}
    blind = {"alertname": "NumaplaceNoSnapshot", "node": "blind", "severity": "warning"}
    others = alerts().keys() - {"NumaplaceDown", "NumaplaceAbsent", "NumaplaceNoSnapshot"}
    names = {
        "expr": 'count(count by (alertname) (ALERTS{alertstate="firing"}))',
        "eval_time": "58m",
        "exp_samples": [{"labels": "{}", "value": len(others)}],
    }
    expected = {
        "fine": firing("58m", []),
        "blind": firing("58m", [{**blind, **TEAM, "alertstate": "firing"}]),
        "ill": names,
    }
    tests = {
        node: {
            "interval": f"{live_series.STEP_SECONDS}s",
            "input_series": inputs(
                up | {one: text for one, text in series.items() if f'node="{node}"' in one}
            ),
            "promql_expr_test": [test],
        }
        for node, test in expected.items()
    }
    assert run(tmp_path, tests) == {}


@pytest.mark.parametrize(
    ("monitor", "job"),
    [("podMonitor", "numa/np-numaplace"), ("serviceMonitor", "np-numaplace-metrics"), (None, None)],
)
def test_a_daemon_that_is_gone_is_looked_for_where_the_monitor_looks(
    monitor: str | None, job: str | None, tmp_path: Path
) -> None:
    minimal = read_yaml((CASES / "values/minimal.yaml").read_text())
    over = {monitor: {"enabled": True}} if monitor else {}
    chart = render({**minimal, "prometheusRule": {"enabled": True}, **over}, tmp_path)
    (group,) = chart.one("PrometheusRule")["spec"]["groups"]
    found = {one["alert"]: one["expr"] for one in group["rules"] if "up{" in one["expr"]}
    assert found == (
        {
            "NumaplaceDown": f'max by (node) (up{{job="{job}"}}) == 0',
            "NumaplaceAbsent": f'absent(up{{job="{job}"}})',
        }
        if job
        else {}
    )


def test_alerts_can_be_left_out(tmp_path: Path) -> None:
    values = read_yaml((CASES / "values/everything.yaml").read_text())
    values["prometheusRule"]["disabled"] = ["NumaplaceFragmented", "NumaplaceNoDevices"]
    (group,) = render(values, tmp_path).one("PrometheusRule")["spec"]["groups"]
    assert alerts().keys() - {one["alert"] for one in group["rules"]} == {
        "NumaplaceFragmented",
        "NumaplaceNoDevices",
    }


def test_the_page_explains_every_alert() -> None:
    page = (ROOT / "docs/metrics.md").read_text()
    assert set(re.findall(r"^\| `(Numaplace\w+)` \|", page, re.M)) == alerts().keys()
