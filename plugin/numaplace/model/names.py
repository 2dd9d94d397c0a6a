"""Identifiers and the closed sets of names that users write."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NewType

ResourceName = NewType("ResourceName", str)
"""An extended resource, ``cpu``, ``memory`` or ``hugepages-<size>``, as Kubernetes spells it."""

Amounts = Mapping[ResourceName, int]
"""Amounts by resource; each user says in which units."""

DeviceId = NewType("DeviceId", str)
"""A device id as ListAndWatch publishes it; at most 63 characters."""

Ids = frozenset[DeviceId]
NO_IDS: Ids = frozenset()
IdsByResource = Mapping[ResourceName, Ids]

PodKey = tuple[str, str]
"""(namespace, name): PodResources carries no UID."""

CPU = ResourceName("cpu")
MEMORY = ResourceName("memory")
HUGEPAGES_PREFIX = "hugepages-"
MAX_DEVICE_ID_LENGTH = 63


def is_memory(resource: str) -> bool:
    """Return whether the resource is counted in bytes on NUMA nodes: ``memory`` or hugepages."""
    return resource == MEMORY or resource.startswith(HUGEPAGES_PREFIX)


class Strategy(StrEnum):
    """KEP-6007's ``numa-allocation-strategy``."""

    NONE = "none"
    MOST_ALLOCATED = "most-allocated"
    LEAST_ALLOCATED = "least-allocated"
