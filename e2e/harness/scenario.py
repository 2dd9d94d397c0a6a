"""Scenarios of cases/calls.yaml: devices and pods, for whatever kubelet is to be asked about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from harness.pods import Container, Pod

NUMA_NODES = 4


@dataclass(frozen=True, slots=True)
class Scenario:
    """``devices`` is resource -> device id -> NUMA nodes; pods use the same resource names."""

    id: str
    policy: str
    devices: Mapping[str, Mapping[str, tuple[int, ...]]]
    pods: tuple[Pod, ...]


def load(path: Path) -> tuple[Scenario, ...]:
    return tuple(_scenario(entry) for entry in yaml.safe_load(path.read_text()))


def _scenario(entry: Mapping[str, object]) -> Scenario:
    name = str(entry["id"])
    devices: dict[str, dict[str, tuple[int, ...]]] = {}
    for short, counts in entry["devices"].items():
        own = devices.setdefault(_resource(name, short), {})
        own.update({f"{short}{node}.{n}": (node,) for node, count in enumerate(counts) for n in range(count)})
    for short, count in entry.get("floating", {}).items():
        own = devices.setdefault(_resource(name, short), {})
        own.update({f"{short}x.{n}": () for n in range(count)})
    pods = tuple(
        Pod(
            f"{name}-{number}",
            containers=_containers(name, pod["containers"]),
            init_containers=_containers(name, pod.get("init", []), init=True),
        )
        for number, pod in enumerate(entry["pods"])
    )
    return Scenario(name, str(entry["policy"]), devices, pods)


def _containers(
    scenario: str, entries: Sequence[Mapping[str, object]], *, init: bool = False
) -> tuple[Container, ...]:
    return tuple(
        Container(
            str(entry["name"]),
            {_resource(scenario, key): n for key, n in entry.items() if key not in ("name", "sidecar")},
            ends=init and not entry.get("sidecar"),
            sidecar=bool(entry.get("sidecar")),
        )
        for entry in entries
    )


def _resource(scenario: str, short: str) -> str:
    # A kubelet remembers a resource for a while: each scenario has its own.
    return f"{scenario}.example.com/{short}"
