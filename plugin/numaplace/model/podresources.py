"""PodResources replies as values. They follow podresources/v1 ``api.proto``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from numaplace.model.names import DeviceId, PodKey, ResourceName


@dataclass(frozen=True, slots=True)
class DeviceBlock:
    """Devices of one resource. ``nodes`` are their NUMA nodes; empty for none, and for a reported -1."""

    resource: ResourceName
    ids: tuple[DeviceId, ...]
    nodes: tuple[int, ...] = ()


def ids_by_resource(blocks: Iterable[DeviceBlock]) -> dict[ResourceName, set[DeviceId]]:
    """Return the devices of each resource: List has a block per set of NUMA nodes, and may repeat an id."""
    ids: dict[ResourceName, set[DeviceId]] = {}
    for block in blocks:
        ids.setdefault(block.resource, set()).update(block.ids)
    return ids


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """Memory of one type (``memory``, ``hugepages-2Mi``). ``size_bytes`` belongs to the SET of nodes."""

    type: ResourceName
    size_bytes: int
    nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ContainerUse:
    """What one container holds. ``cpus`` are exclusive CPUs only; ``claims`` are DRA claims (not scored)."""

    name: str
    devices: tuple[DeviceBlock, ...] = ()
    cpus: frozenset[int] = frozenset()
    memory: tuple[MemoryBlock, ...] = ()
    claims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodUse:
    """What one pod holds. Pod-level ``cpus`` and ``memory`` include those of its containers (1.37)."""

    namespace: str
    name: str
    containers: tuple[ContainerUse, ...] = ()
    cpus: frozenset[int] = frozenset()
    memory: tuple[MemoryBlock, ...] = ()

    @property
    def key(self) -> PodKey:
        return (self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class Allocatable:
    """Capacity, not free: GetAllocatableResources. Without reserved CPUs and unhealthy devices."""

    devices: tuple[DeviceBlock, ...] = ()
    cpus: frozenset[int] = frozenset()
    memory: tuple[MemoryBlock, ...] = ()
