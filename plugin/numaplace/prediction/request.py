"""What pods may request, as far as NUMA placement is concerned.

Sources are values: requests that the configuration declares, and those of pods seen on the node.

Assumed of every request: whole exclusive CPUs and memory are those of a Guaranteed pod without init
containers. A request without CPUs and memory is a pod that requests devices only. Memory that is not named
beside CPUs counts as one byte, CPUs that are not named beside memory as a fraction of one: name what your
pods request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from numaplace.managers.admission import Scope
from numaplace.managers.device_manager import PodUid
from numaplace.managers.pod import Container, Pod
from numaplace.model.names import CPU, MEMORY, ResourceName, is_memory
from numaplace.model.podresources import ContainerUse, PodUse, ids_by_resource

AmountPairs = tuple[tuple[ResourceName, int], ...]
"""(resource, amount) by name, all above 0: whole CPUs, bytes, or devices."""

REQUEST_UID = PodUid("numaplace.request")
"""No pod of a real kubelet has this UID."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a pod requests, container by container. Make it with ``Request.of``."""

    containers: tuple[AmountPairs, ...]

    @classmethod
    def of(cls, *containers: Mapping[ResourceName, int]) -> Request:
        """Return the request of a pod with these containers; amounts of 0 are left out."""
        return cls(tuple(_amounts(one) for one in containers))

    @property
    def total(self) -> Mapping[ResourceName, int]:
        total: Counter[ResourceName] = Counter()
        for amounts in self.containers:
            for resource, amount in amounts:
                total[resource] += amount
        return total

    def units(self, scope: Scope) -> tuple[Request, ...]:
        """Return what the Topology Manager decides on: the pod as a whole, or each container by itself.

        Under scope ``container`` the withheld set is renewed before the next container is admitted.
        """
        if scope is Scope.POD:
            return (self,) if self.containers else ()
        return tuple(Request((amounts,)) for amounts in self.containers)

    def pod(self) -> Pod:
        placed = any(is_compute(resource) for amounts in self.containers for resource, _ in amounts)
        return Pod(
            REQUEST_UID,
            "",
            "request",
            tuple(
                _container(f"c{number}", dict(amounts), placed=placed)
                for number, amounts in enumerate(self.containers)
            ),
        )


def is_compute(resource: ResourceName) -> bool:
    return resource == CPU or is_memory(resource)


def _amounts(amounts: Mapping[ResourceName, int]) -> AmountPairs:
    return tuple((resource, amounts[resource]) for resource in sorted(amounts) if amounts[resource] > 0)


def _container(name: str, amounts: dict[ResourceName, int], *, placed: bool) -> Container:
    if placed:
        # A Guaranteed pod names CPU and memory for all its containers; a thousandth of a CPU is shared.
        amounts[CPU] = 1000 * amounts[CPU] if CPU in amounts else 1
        amounts.setdefault(MEMORY, 1)
    return Container(name, amounts, amounts)


def seen_requests(pods: Iterable[PodUse]) -> tuple[Request, ...]:
    """Return the distinct requests of what the pods hold, in their order; a pod without holdings has none."""
    found = (Request(tuple(filter(None, map(_held_by, pod.containers)))) for pod in pods)
    return tuple(dict.fromkeys(one for one in found if one.containers))


def _held_by(container: ContainerUse) -> AmountPairs:
    held: Counter[ResourceName] = Counter()
    held.update({resource: len(ids) for resource, ids in ids_by_resource(container.devices).items()})
    held[CPU] += len(container.cpus)
    for memory in container.memory:
        held[memory.type] += memory.size_bytes
    return _amounts(held)
