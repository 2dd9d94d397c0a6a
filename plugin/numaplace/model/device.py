"""Devices, and the container edits that come with them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from numaplace.model.mask import mask_of
from numaplace.model.names import DeviceId

JsonObject = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device file: host path, container path, cgroup permissions (of ``mrw``)."""

    host_path: str
    container_path: str
    permissions: str = "rw"

    @classmethod
    def below_dev(cls, name: str) -> DeviceNode:
        return cls(f"/dev/{name}", f"/dev/{name}")


@dataclass(frozen=True, slots=True)
class Mount:
    """A bind mount."""

    host_path: str
    container_path: str
    read_only: bool = True


@dataclass(frozen=True, slots=True)
class ContainerEdits:
    """The changes that one device makes to a container.

    ``env`` values of several devices are joined with commas, in the order of the devices;
    ``env_json`` values are merged into one JSON object per variable; the rest is united without duplicates.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    env_json: Mapping[str, JsonObject] = field(default_factory=dict)
    device_nodes: tuple[DeviceNode, ...] = ()
    mounts: tuple[Mount, ...] = ()
    cdi_devices: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)


def combine(edits: Iterable[ContainerEdits]) -> ContainerEdits:
    """Combine the edits of a container's devices, in their order, by the rule of ``ContainerEdits``."""
    env: dict[str, list[str]] = {}
    env_json: dict[str, dict[str, object]] = {}
    nodes: dict[DeviceNode, None] = {}
    mounts: dict[Mount, None] = {}
    cdi: dict[str, None] = {}
    annotations: dict[str, str] = {}
    for one in edits:
        for key, value in one.env.items():
            values = env.setdefault(key, [])
            if value not in values:
                values.append(value)
        for key, mapping in one.env_json.items():
            env_json.setdefault(key, {}).update(mapping)
        nodes.update(dict.fromkeys(one.device_nodes))
        mounts.update(dict.fromkeys(one.mounts))
        cdi.update(dict.fromkeys(one.cdi_devices))
        annotations.update(one.annotations)
    return ContainerEdits(
        env={key: ",".join(values) for key, values in env.items()},
        env_json=env_json,
        device_nodes=tuple(nodes),
        mounts=tuple(mounts),
        cdi_devices=tuple(cdi),
        annotations=annotations,
    )


@dataclass(frozen=True, slots=True)
class Device:
    """One device of a resource.

    ``nodes`` are its NUMA nodes, ascending; empty means no topology (unknown or -1).
    ``group`` is what it shares hardware with: a VF's PF, a GPU partition's parent; empty means itself.
    """

    id: DeviceId
    nodes: tuple[int, ...] = ()
    group: str = ""
    healthy: bool = True
    edits: ContainerEdits = field(default_factory=ContainerEdits)

    @property
    def mask(self) -> int:
        """The mask of its NUMA nodes; 0 without topology."""
        return mask_of(self.nodes)


_NUMBER = re.compile(r"(\d+)")


def natural_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key under which ``vf2`` comes before ``vf10``; ties are broken by the plain text."""
    parts = tuple(
        (0, int(part), "") if part.isdigit() and part.isascii() else (1, 0, part)
        for part in _NUMBER.split(text)
        if part
    )
    return (*parts, (2, 0, text))
