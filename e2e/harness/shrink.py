"""Making a failing scenario smaller while it still fails (delta debugging)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

Scenario = dict[str, Any]
Path = tuple[str | int, ...]

_FIXED_CONTAINER_KEYS = {"name", "restartPolicy", "requests", "limits"}


def shrink(scenario: Scenario, fails: Callable[[Scenario], bool], *, limit: int = 2000) -> Scenario:
    """Return a scenario that still fails and of which nothing can be left out alone.

    ``fails`` must answer False for scenarios that are not valid any more. At most ``limit`` are tried.
    """
    tried = 0
    progress = True
    while progress:
        progress = False
        for candidate in _smaller(scenario):
            tried += 1
            if tried > limit:
                return scenario
            if fails(candidate):
                scenario, progress = candidate, True
                break
    return scenario


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    """Yield copies that lack something, the large things first."""
    yield from _without_steps(scenario["steps"], scenario)
    for path in _removable(scenario):
        yield _without(scenario, path)
    yield from _smaller_amounts(scenario)


def _without_steps(steps: list[Any], scenario: Scenario) -> Iterator[Scenario]:
    size = len(steps)
    while size := size // 2:
        for at in range(0, len(steps), size):
            left = _consistent(steps[:at] + steps[at + size :])
            yield copy.deepcopy(scenario | {"steps": left})


def _consistent(steps: list[Any]) -> list[Any]:
    """Drop the deletions of pods that are not created any more."""
    created: set[str] = set()
    kept = []
    for step in steps:
        if "create" in step:
            created.add(step["create"]["name"])
        if step.get("delete", next(iter(created), None)) in created or "delete" not in step:
            kept.append(step)
    return kept


def _removable(scenario: Scenario) -> Iterator[Path]:
    """Yield paths of parts that a scenario can do without."""
    node, kubelet = scenario["node"], scenario["kubelet"]
    for index in range(len(node.get("devices", []))):
        yield ("node", "devices", index)
    for key in ("distances", "cpuTopology", "devices"):
        if key in node:
            yield ("node", key)
    for index in range(len(node["numaNodes"])):
        yield ("node", "numaNodes", index)
    for key, value in kubelet.items():
        yield ("kubelet", key)
        for inner in value if isinstance(value, dict) else ():
            yield ("kubelet", key, inner)
    for at, step in enumerate(scenario["steps"]):
        if "create" in step:
            yield from _removable_of_pod(step["create"], ("steps", at, "create"))
        for key in ("healthy", "unhealthy"):
            for index in range(len(step.get(key, {}).get("ids", ()))):
                yield ("steps", at, key, "ids", index)
    for index, entry in enumerate(node.get("devices", [])):
        for inner in range(len(entry["ids"])):
            yield ("node", "devices", index, "ids", inner)


def _removable_of_pod(pod: Scenario, path: Path) -> Iterator[Path]:
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(pod.get(kind, [])):
            yield (*path, kind, index)
            yield from ((*path, kind, index, key) for key in container if key not in _FIXED_CONTAINER_KEYS)
            if "restartPolicy" in container:
                yield (*path, kind, index, "restartPolicy")


def _without(scenario: Scenario, path: Path) -> Scenario:
    result = copy.deepcopy(scenario)
    at: Any = result
    for key in path[:-1]:
        at = at[key]
    del at[path[-1]]
    return result


def _smaller_amounts(scenario: Scenario) -> Iterator[Scenario]:
    """Yield copies with one plain number of a container one lower."""
    for at, step in enumerate(scenario["steps"]):
        for kind in ("initContainers", "containers"):
            for index, container in enumerate(step.get("create", {}).get(kind, [])):
                for key, value in container.items():
                    if isinstance(value, int) and value > 1:
                        result = copy.deepcopy(scenario)
                        result["steps"][at]["create"][kind][index][key] = value - 1
                        yield result
