"""Case files of tests/cases/scenarios: a scenario, and what comes of it in each variant.

A variant may override parts of ``kubelet``, and replace ``placement`` and ``steps``. ``expect`` holds for
each pod what is stated of it: of the container of a pod with one, or of those in ``containers``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from numaplace.reading.names import parse_cpu_list
from numaplace.simulate.scenario.load import parse_scenario
from numaplace.simulate.scenario.records import Scenario

FOLDER = Path(__file__).parent.parent / "cases" / "scenarios"
Document = dict[str, Any]


def variants() -> Iterator[Any]:
    """Yield (scenario document, expectations) of every variant of every case file."""
    for file in sorted(FOLDER.glob("*.yaml")):
        case = yaml.safe_load(file.read_text())
        for variant in case["variants"]:
            scenario = dict(case["scenario"])
            scenario["kubelet"] = scenario.get("kubelet", {}) | variant.get("kubelet", {})
            scenario |= {key: variant[key] for key in ("placement", "steps") if key in variant}
            name = f"{case['id']} {variant.get('id', '')}".strip()
            yield pytest.param(scenario, variant["expect"], id=name)


def parse(document: Document) -> Scenario:
    return parse_scenario(json.dumps(document), source="case")


def stated(step: Document, expected: Document, *, node: Document) -> Document:
    """Return of a create step's outcome what ``expected`` speaks of, in its form."""
    if "refused" in expected:
        return {"refused": step["reason"] if not step["admitted"] else None}
    if not step["admitted"]:
        return {"refused": step["reason"]}
    containers = {one["name"]: one for one in step["containers"]}
    if "containers" in expected:
        return {
            "containers": {
                name: _of_container(containers[name], one, node)
                for name, one in expected["containers"].items()
            }
        }
    (container,) = containers.values()
    return _of_container(container, expected, node)


def _of_container(container: Document, expected: Document, node: Document) -> Document:
    single = [one["score"] for one in container["candidates"] if len(one["numa"]) == 1]
    values = {
        "numa": container["affinity"],
        "preferred": container["preferred"],
        "structural": container["structural"],
        "rule": container["decidedBy"],
        "scores": single,
        "cpus": container["cpus"],
        "cpu_nodes": _nodes_of_cpus(container["cpus"], node),
        "memory": container["memory"],
        "devices": {name: held["ids"] for name, held in container["devices"].items()},
        "device_nodes": sorted({one for held in container["devices"].values() for one in held["numa"]}),
    }
    return {key: values[key] for key in expected}


def _nodes_of_cpus(cpus: str, node: Document) -> list[int]:
    mine = parse_cpu_list(cpus)
    return [one["id"] for one in node["numaNodes"] if mine & parse_cpu_list(one.get("cpus", ""))]
