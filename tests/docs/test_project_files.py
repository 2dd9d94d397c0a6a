"""The files for GitHub: CI there is `.ci/run`, and the forms are whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
GITHUB = ROOT / ".github"


def test_the_workflow_runs_what_ci_runs() -> None:
    jobs = yaml.safe_load((GITHUB / "workflows/ci.yml").read_text())["jobs"]
    commands = [step.get("run", "") for job in jobs.values() for step in job["steps"]]
    run = {target for command in commands for target in command.partition(".ci/run ")[2].split()}
    default = re.search(r"set -- (.*)$", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    assert default
    assert run == set(default[1].split())


@pytest.mark.parametrize(
    "form", sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.name
)
def test_forms_have_what_github_asks_for(form: Path) -> None:
    document = yaml.safe_load(form.read_text())
    assert document["name"]
    assert document["description"]
    fields = [field for field in document["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in fields}) == len(fields)
    assert all(field["attributes"]["label"] for field in fields)
