"""The dashboard's queries, asked of Prometheus's own engine over series of the daemon's own metrics."""

from __future__ import annotations

import re

import pytest
from dashboards import DASHBOARD, filled_in, panels, queries
from prometheus_tools import Answer, ask, unknown


@pytest.fixture(scope="module")
def answers() -> dict[str, Answer]:
    return ask(queries())


def test_metrics_and_labels_are_the_daemons(answers: dict[str, Answer]) -> None:
    assert {query: found for query, answer in answers.items() if (found := unknown(answer))} == {}


def test_a_check_that_finds_nothing_is_worth_nothing() -> None:
    answers = ask(
        {"metric": "numaplace_device", "label": 'sum by (recource) (numaplace_devices{hearth="x"})'}
    )
    assert unknown(answers["metric"]) == ["numaplace_device"]
    assert unknown(answers["label"]) == [
        "numaplace_devices: hearth",
        "['numaplace_devices']: recource",
    ]


def test_every_query_shows_something_when_there_is_something(answers: dict[str, Answer]) -> None:
    assert [query for query, answer in answers.items() if not answer.samples] == []


def test_legends_name_labels_that_the_series_have_and_tell_them_apart(answers: dict[str, Answer]) -> None:
    for panel in panels():
        if panel["type"] == "table":
            continue
        shown = []
        for target in panel["targets"]:
            legend = target["legendFormat"]
            for sample in answers[f"{panel['title']} / {legend}"].samples:
                wanted = re.findall(r"{{(\w+)}}", legend)
                assert set(wanted) <= sample["labels"].keys(), legend
                shown.append(re.sub(r"{{(\w+)}}", lambda match: sample["labels"][match[1]], legend))  # noqa: B023
        assert len(set(shown)) == len(shown), panel["title"]


def test_tables_name_their_columns(answers: dict[str, Answer]) -> None:
    for panel in panels():
        if panel["type"] != "table":
            continue
        (names,) = [
            one["options"]["renameByName"] for one in panel["transformations"] if one["id"] == "organize"
        ]
        for target in panel["targets"]:
            for sample in answers[f"{panel['title']} / {target['legendFormat']}"].samples:
                assert sample["labels"].keys() - {"__name__"} <= names.keys()


def values(answers: dict[str, Answer], query: str) -> list[float]:
    return [sample["value"] for sample in answers[query].samples]


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("Daemons / Daemons", 3),
        ("Not registered / Not registered", 1),
        ("State missing or stale / State missing or stale", 2),
        ("Unhealthy devices / Unhealthy devices", 2),
        ("Split, last hour / Split, last hour", 0.25),
        ("Fragmented for $size / Fragmented for $size", 1),
        ("Pod watch down / Pod watch down", 1),
    ],
)
def test_the_fleet_is_counted(answers: dict[str, Answer], query: str, value: float) -> None:
    assert values(answers, query) == [pytest.approx(value)]


def test_only_nodes_in_trouble_need_a_look(answers: dict[str, Answer]) -> None:
    found: dict[str, set[str]] = {}
    for query, answer in answers.items():
        title, _, column = query.partition(" / ")
        if title == "Nodes that need attention":
            found[column] = {sample["labels"]["node"] for sample in answer.samples}
    assert found.pop("State never read") == {"blind"}
    assert set().union(*found.values()) == {"ill"}


def test_what_a_request_finds_adds_up(answers: dict[str, Answer]) -> None:
    prefix = "What a request of $size finds / {{resource}}: "
    found = {
        name: {one["labels"]["resource"]: one["value"] for one in answers[prefix + name].samples}
        for name in ("one NUMA node", "only split", "too few")
    }
    assert found["one NUMA node"] == {"nvidia.com/gpu": 1}
    assert found["only split"] == {"nvidia.com/gpu": 1}
    assert found["too few"] == {"intel.com/sriov_vf": 2}


def test_values_to_choose_from_are_found() -> None:
    wanted = {
        one["name"]: re.fullmatch(r"label_values\((.*), (\w+)\)", one["definition"])
        for one in DASHBOARD["templating"]["list"]
        if one["type"] == "query"
    }
    answers = ask({name: filled_in(match[1]) for name, match in wanted.items() if match})
    for name, match in wanted.items():
        assert match
        assert {sample["labels"].get(match[2]) for sample in answers[name].samples} - {None}, name
    assert {one["labels"]["resource"] for one in answers["resource"].samples} >= {"cpu", "nvidia.com/gpu"}


def test_marks_of_alerts_are_a_query() -> None:
    (marks,) = DASHBOARD["annotations"]["list"]
    (selector,) = ask({"alerts": filled_in(marks["expr"])})["alerts"].selectors
    assert selector == {"metric": "ALERTS", "labels": ["alertname", "alertstate", "node"]}
