"""Asks Prometheus's own parser, engine and promtool (built by ``tests/chart/tool.sh``)."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import live_series


@dataclass(frozen=True, slots=True)
class Answer:
    """What Prometheus makes of a query over the series of ``live_series``.

    ``selectors`` are metric and labels; ``named`` the labels of a ``by`` or ``on`` and the metrics under it.
    """

    selectors: list[dict[str, Any]]
    named: list[dict[str, Any]]
    samples: list[dict[str, Any]]


def ask(queries: Mapping[str, str]) -> dict[str, Answer]:
    """Return Prometheus's answers by the queries' ids; fails on a query that it does not understand."""
    at_seconds = live_series.STEP_SECONDS * live_series.STEPS
    asked = {"load": live_series.load(), "atSeconds": at_seconds, "queries": dict(queries)}
    done = subprocess.run(
        [os.environ["NUMAPLACE_PROMQL"]],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    refused = {queries[one]: answer["error"] for one, answer in answers.items() if "error" in answer}
    assert not refused
    return {
        one: Answer(found["selectors"], found["named"], found["samples"]) for one, found in answers.items()
    }


def unknown(answer: Answer) -> list[str]:
    """Return metrics and labels of the query that the daemon does not have."""
    known = live_series.labels_by_metric()
    always = live_series.FROM_PROMETHEUS
    found = []
    for selector in answer.selectors:
        metric = selector["metric"]
        if metric not in known:
            found.append(metric)
            continue
        found += [f"{metric}: {one}" for one in set(selector["labels"]) - known[metric] - always]
    for named in answer.named:
        below = set().union(*(known.get(metric, set()) for metric in named["metrics"]))
        found += [f"{named['metrics']}: {one}" for one in set(named["labels"]) - below - always]
    return found


def promtool(*arguments: str, check: bool = True) -> str:
    """Run promtool and return what it says; fails with its words unless that is not checked."""
    done = subprocess.run(
        [os.environ["NUMAPLACE_PROMTOOL"], *arguments],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0 or not check, done.stdout + done.stderr
    return done.stdout + done.stderr
