"""Amounts by resource, of containers, NUMA nodes and reservations."""

from __future__ import annotations

from collections.abc import Collection

from numaplace.model.names import CPU, HUGEPAGES_PREFIX, MEMORY, ResourceName, is_memory
from numaplace.model.quantity import parse_quantity
from numaplace.reading.keys import Keys
from numaplace.reading.kinds import Kind
from numaplace.reading.names import RESOURCE_NAME
from numaplace.reading.quantities import MILLICORES, PIECES, SIZE
from numaplace.reading.readers import Leaf

RESOURCE_KEYS = "cpu, memory, hugepages-<size>, or domain/name such as nvidia.com/gpu"


def read_amounts(
    keys: Keys, *, ignored: Collection[str] = (), also: str = RESOURCE_KEYS
) -> dict[ResourceName, int]:
    """Return the amounts of all remaining keys; a key that is not a resource is a problem.

    ``ignored`` names are allowed and have no effect.
    """
    keys.done.update(ignored)
    amounts: dict[ResourceName, int] = {}
    for name, node in tuple(keys.rest()):
        try:
            resource = _parse_resource(name)
        except ValueError:
            continue
        keys.done.add(name)
        amounts[resource] = keys.read(Leaf(_kind_of(resource)), node, name=name, default=0)
    keys.refuse_rest(also=also)
    return amounts


def page_size(resource: str) -> int:
    """Return the bytes of a page of ``hugepages-<size>``; ``ValueError`` if that is not a page size."""
    size = parse_quantity(resource.removeprefix(HUGEPAGES_PREFIX))
    if size.denominator != 1 or size < 1024:
        raise ValueError(f"not a page size: {resource!r}")
    return int(size)


def _parse_resource(text: str) -> ResourceName:
    """Return the name of a resource that a manager allocates; ``ValueError`` otherwise."""
    if text in (CPU, MEMORY):
        return ResourceName(text)
    if text.startswith(HUGEPAGES_PREFIX):
        page_size(text)
        return ResourceName(text)
    return RESOURCE_NAME.parse(text)


def _kind_of(resource: ResourceName) -> Kind[int]:
    if resource == CPU:
        return MILLICORES
    return SIZE if is_memory(resource) else PIECES
