"""What pods of no known request hold, and the pods that take slots therefore cannot have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from numaplace.managers.admission import Scope
from numaplace.model.mask import mask_of, nodes_of
from numaplace.model.names import CPU, ResourceName
from numaplace.model.podresources import ContainerUse, ids_by_resource
from numaplace.state.snapshot import Snapshot

Kind = AbstractSet[tuple[ResourceName, int]]
"""What a unit of admission requests: (resource, amount)."""


def held_by_others(
    snapshot: Snapshot, known: AbstractSet[Kind], scope: Scope
) -> Mapping[tuple[ResourceName, int], int]:
    """Return by resource and NUMA node what units hold that are none of the ``known`` ones.

    A container that does not have all yet is one, too: so what they hold takes from what there is beside the
    slots, but is no slot less. What is of several nodes counts on each.
    """
    found: Counter[tuple[ResourceName, int]] = Counter()
    for pod in snapshot.pods:
        units = [pod.containers] if scope is Scope.POD else [(one,) for one in pod.containers]
        for unit in units:
            held = _held(snapshot, unit)
            total: Counter[ResourceName] = Counter()
            for (resource, _), amount in held.items():
                total[resource] += amount
            if frozenset(total.items()) not in known:
                for (resource, mask), amount in held.items():
                    found.update({(resource, node): amount for node in nodes_of(mask)})
    return found


def _held(snapshot: Snapshot, containers: Iterable[ContainerUse]) -> Mapping[tuple[ResourceName, int], int]:
    held: Counter[tuple[ResourceName, int]] = Counter()
    for container in containers:
        for resource, ids in ids_by_resource(container.devices).items():
            states = snapshot.devices(resource)
            held.update((resource, states[one].mask if one in states else 0) for one in ids)
        held.update((CPU, snapshot.cpu_masks.get(cpu, 0)) for cpu in container.cpus)
        for block in container.memory:
            held[block.type, mask_of(block.nodes)] += block.size_bytes
    return held
