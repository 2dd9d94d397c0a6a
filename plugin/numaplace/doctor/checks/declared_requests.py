"""Declared requests that are larger than this node: steering still takes them into account."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from numaplace.doctor.findings import Finding, Level
from numaplace.model.names import CPU, ResourceName, is_memory
from numaplace.model.podresources import Allocatable, ids_by_resource
from numaplace.model.quantity import quantity_text


def too_large(requests: Sequence[Mapping[ResourceName, int]], capacity: Allocatable) -> Iterator[Finding]:
    """Yield the requests for more than the whole node has.

    CPUs and memory are checked where the kubelet allocates them by NUMA node: elsewhere it reports none.
    """
    has = _capacity_of(capacity)
    for number, request in enumerate(requests):
        lacking = [
            f"{quantity_text(name, amount)} {name} of {quantity_text(name, has[name])}"
            for name, amount in request.items()
            if amount > has[name] and not _is_not_counted(name, capacity)
        ]
        if lacking:
            yield Finding(
                Level.WARNING,
                f"steering.requests[{number}] asks for more than this node has: {', '.join(lacking)}",
                "GetAllocatableResources of PodResources",
                "correct it, or give nodes like this one a configuration of their own: a request that cannot "
                "come may keep steering off",
            )


def _capacity_of(capacity: Allocatable) -> Counter[ResourceName]:
    has = Counter({resource: len(ids) for resource, ids in ids_by_resource(capacity.devices).items()})
    has[CPU] = len(capacity.cpus)
    for memory in capacity.memory:
        has[memory.type] += memory.size_bytes
    return has


def _is_not_counted(name: ResourceName, capacity: Allocatable) -> bool:
    return not capacity.cpus if name == CPU else is_memory(name) and not capacity.memory
