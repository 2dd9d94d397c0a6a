"""Pods as values, and as the JSON files of a kubelet's static pod folder."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

IMAGE = "example.com/stub:latest"
EXIT_COMMAND = "exit"
"""A container with this command ends at once with exit code 0 in the stub runtime."""


_FIRST_CREATION = datetime(2026, 1, 1, tzinfo=UTC)

_numbers = itertools.count(1)


def unique(prefix: str) -> str:
    """Return a pod name that was not used before.

    A kubelet that gets a static pod of an old name first waits, with a back-off, for the old one's end.
    """
    return f"{prefix}-{next(_numbers)}"


@dataclass(frozen=True, slots=True)
class Container:
    """A container and its limits (which are its requests), as Kubernetes writes quantities."""

    name: str = "main"
    limits: Mapping[str, str | int] = field(default_factory=dict)
    ends: bool = False
    sidecar: bool = False

    def manifest(self) -> dict[str, object]:
        resources = {name: str(amount) for name, amount in self.limits.items()}
        manifest: dict[str, object] = {
            "name": self.name,
            "image": IMAGE,
            "imagePullPolicy": "Never",
            "resources": {"limits": resources, "requests": resources},
        }
        if self.ends:
            manifest["command"] = [EXIT_COMMAND]
        if self.sidecar:
            manifest["restartPolicy"] = "Always"
        return manifest


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod. Sidecars are init containers with ``sidecar=True``; init containers have ``ends=True``."""

    name: str
    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...] = ()

    @classmethod
    def of(cls, name: str, limits: Mapping[str, str | int]) -> Pod:
        """Return a pod with one container."""
        return cls(name, (Container(limits=limits),))

    @property
    def lasting_containers(self) -> tuple[str, ...]:
        """The names of the containers that run as long as the pod does."""
        sidecars = tuple(one.name for one in self.init_containers if one.sidecar)
        return sidecars + tuple(one.name for one in self.containers)

    def manifest(self) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self.name, "namespace": "default"},
            "spec": {
                "hostNetwork": True,
                "enableServiceLinks": False,
                "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": 1,
                "initContainers": [one.manifest() for one in self.init_containers],
                "containers": [one.manifest() for one in self.containers],
            },
        }


class StaticPodFolder:
    """The folder that a kubelet watches for pods."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._numbers = itertools.count()
        # Files are completed here first: the kubelet skips names that start with a dot.
        path.mkdir(parents=True, exist_ok=True)

    def create(self, pod: Pod) -> None:
        unfinished = self.path / f".{pod.name}"
        # The kubelet admits what it finds at the same time in the order of creation, and counts in seconds.
        created = _FIRST_CREATION + timedelta(seconds=next(self._numbers))
        manifest = pod.manifest()
        manifest["metadata"] |= {"creationTimestamp": f"{created:%Y-%m-%dT%H:%M:%SZ}"}
        unfinished.write_text(json.dumps(manifest))
        os.replace(unfinished, self.path / f"{pod.name}.json")

    def delete(self, name: str) -> None:
        (self.path / f"{name}.json").unlink(missing_ok=True)
