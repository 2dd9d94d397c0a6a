"""Amounts by resource, as containers, NUMA nodes and reservations have them."""

from __future__ import annotations

from collections.abc import Collection

from numaplace.config.readers import Leaf
from numaplace.model.names import ResourceName
from numaplace.simulate.scenario.kinds import RESOURCE_KEYS, amount_kind, parse_resource
from numaplace.simulate.scenario.reading import Keys


def read_amounts(
    keys: Keys, *, ignored: Collection[str] = (), also: str = RESOURCE_KEYS
) -> dict[ResourceName, int]:
    """Return what all keys that nobody has taken say; keys that are no resources are problems.

    ``ignored`` are names that are allowed and mean nothing here.
    """
    keys.done.update(ignored)
    amounts: dict[ResourceName, int] = {}
    for name, node in tuple(keys.rest()):
        try:
            resource = parse_resource(name)
        except ValueError:
            continue
        keys.done.add(name)
        amounts[resource] = keys.read(Leaf(amount_kind(resource), ""), node, name=name, default=0)
    keys.refuse_rest(also=also)
    return amounts
