"""What containers on this node request together, learnt from what they hold.

GetPreferredAllocation names one resource. A container may request a VF and a GPU, and the kubelet asks
about the VF first; a NUMA node without a free GPU would be a bad choice, which the call does not show. What
earlier containers that held as many of the resource held beside it is the best evidence without the API
server. It is a hint, never a condition: a wrong one costs a tie-break.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from numaplace.model.names import PodKey, ResourceName
from numaplace.model.podresources import ContainerUse, ids_by_resource
from numaplace.state.list_change import Entries

REMEMBERED_CONTAINERS = 64
"""Containers remembered, newest last: a node's mix of workloads changes, and old ones should fade."""

Request = tuple[tuple[ResourceName, int], ...]
"""Device resources that one container holds, and how many of each, sorted by name."""


@dataclass(frozen=True, slots=True)
class CompanionLog:
    """The requests of the containers admitted last. ``after_list`` returns the next value, or itself."""

    requests: tuple[Request, ...] = ()
    _noted: frozenset[PodKey] = field(default=frozenset(), repr=False)

    def after_list(self, entries: Entries, complete: frozenset[PodKey]) -> CompanionLog:
        new = complete - self._noted
        noted = self._noted & complete
        if not new and len(noted) == len(self._noted):
            return self
        done = (one for key in sorted(new) for pod in entries[key] for one in pod.containers)
        found = [request for one in done if (request := _request_of(one))]
        return CompanionLog((*self.requests, *found)[-REMEMBERED_CONTAINERS:], noted | new)

    def companions(self, resource: ResourceName, size: int) -> Mapping[ResourceName, int]:
        """Return what most containers with exactly ``size`` of the resource held beside it, and how much.

        A companion is held by more than half of them; its amount is the most frequent one.
        """
        alike = {
            request: count for request, count in Counter(self.requests).items() if (resource, size) in request
        }
        amounts: dict[ResourceName, Counter[int]] = {}
        for request, count in alike.items():
            for other, amount in request:
                if other != resource:
                    amounts.setdefault(other, Counter())[amount] += count
        return {
            other: min(counts, key=lambda amount: (-counts[amount], amount))
            for other, counts in sorted(amounts.items())
            if counts.total() * 2 > sum(alike.values())
        }


def _request_of(container: ContainerUse) -> Request:
    held = ids_by_resource(container.devices)
    return tuple(sorted((resource, len(ids)) for resource, ids in held.items()))
