"""Read the engine's cases and turn their short forms into engine values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from numaplace.engine.hint import Hint
from numaplace.engine.merge import ProvidersHints
from numaplace.engine.options import PolicyOptions, parse_options
from numaplace.model.mask import mask_of, nodes_of
from numaplace.model.names import ResourceName
from numaplace.model.topology import NumaTopology
from yaml_text import read_yaml

CASES = Path(__file__).parents[1] / "cases" / "engine"

Case = Mapping[str, Any]


def load(name: str) -> Any:
    text = (CASES / name).read_text(encoding="utf-8")
    return json.loads(text) if name.endswith(".json") else read_yaml(text)


def section(key: str, *names: str) -> list[Any]:
    """Return the section ``key`` of the files as parameters with readable ids."""
    return [
        pytest.param(case, id=f"{name.partition('.')[0]}: {case['id']}")
        for name in names
        for case in load(name).get(key, ())
    ]


def topology_of(distances: Sequence[Sequence[int]]) -> NumaTopology:
    return NumaTopology(
        nodes=tuple(range(len(distances))),
        distances={a: dict(enumerate(row)) for a, row in enumerate(distances)},
    )


def case_topology(case: Case) -> NumaTopology:
    return topology_of(case["distances"]) if "distances" in case else flat_topology(case["nodes"])


def flat_topology(count: int) -> NumaTopology:
    return NumaTopology(nodes=tuple(range(count)))


def case_options(case: Case) -> PolicyOptions:
    return parse_options(case.get("options", {}), alpha=True).options


def hint_of(form: Case | None) -> Hint | None:
    return None if form is None else hint(form)


def hint(form: Case) -> Hint:
    numa = form["numa"]
    return Hint(None if numa is None else mask_of(numa), form["preferred"], form.get("score", 0))


def providers_of(form: Iterable[Mapping[str, Sequence[Case] | None]]) -> ProvidersHints:
    return [
        {
            ResourceName(resource): None if hints is None else [hint(one) for one in hints]
            for resource, hints in provider.items()
        }
        for provider in form
    ]


def numa_of(mask: int | None) -> list[int] | None:
    return None if mask is None else list(nodes_of(mask))
