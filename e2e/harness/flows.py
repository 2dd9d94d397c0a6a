"""What tests do with pods on any backend: place them, read where they landed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.pods import Pod
from harness.waiters import until

if TYPE_CHECKING:
    # For the protocol alone: other backends than the simulated node need none of its modules.
    from harness.backend import Backend

LIMIT_SECONDS = 30.0


class PodRejectedError(AssertionError):
    """The kubelet refused a pod that had to run."""


def started(backend: Backend, pod: Pod) -> bool:
    """Return whether all lasting containers run; ``PodRejectedError`` if the kubelet refused the pod."""
    if set(pod.lasting_containers) <= backend.running(pod.name):
        return True
    if refusal := backend.rejected(pod.name):
        raise PodRejectedError(f"pod {pod.name}: {refusal.reason}: {refusal.message}")
    return False


def run_one_by_one(backend: Backend, pods: Iterable[Pod], *, limit_seconds: float = LIMIT_SECONDS) -> None:
    """Create each pod and wait until it runs before the next."""
    for pod in pods:
        backend.create(pod)
        wait_for(backend, [pod], limit_seconds=limit_seconds)


def run_burst(backend: Backend, pods: Iterable[Pod], *, limit_seconds: float = 2 * LIMIT_SECONDS) -> None:
    """Create all pods at once, then wait until all run."""
    all_pods = list(pods)
    for pod in all_pods:
        backend.create(pod)
    wait_for(backend, all_pods, limit_seconds=limit_seconds)


def wait_for(backend: Backend, pods: Iterable[Pod], *, limit_seconds: float) -> None:
    for pod in pods:
        until(
            lambda pod=pod: started(backend, pod),
            f"pod {pod.name} to run",
            limit_seconds=limit_seconds,
            every_seconds=0.03,
            detail=lambda pod=pod: sorted(backend.running(pod.name)),
        )


def wait_settled(backend: Backend, pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Wait until each pod runs or was refused; return the refused ones."""
    all_pods = tuple(pods)
    for pod in all_pods:
        until(
            lambda pod=pod: (
                set(pod.lasting_containers) <= backend.running(pod.name) or backend.rejected(pod.name)
            ),
            f"pod {pod.name} to run or to be refused",
            limit_seconds=LIMIT_SECONDS,
        )
    return tuple(pod for pod in all_pods if backend.rejected(pod.name))


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the devices of pods are, by the hardware's truth (device id -> NUMA node), at one time."""

    devices: Mapping[str, Mapping[str, frozenset[str]]]
    node_of: Mapping[str, int]
    cpus: Mapping[str, frozenset[int]]

    def ids(self, pod: str, resource: str) -> frozenset[str]:
        return self.devices[pod].get(resource, frozenset())

    def nodes(self, pod: str, *resources: str) -> frozenset[int]:
        """The NUMA nodes of a pod's devices of these resources (of all, without any)."""
        held = self.devices[pod]
        return frozenset(self.node_of[device] for name in resources or held for device in held.get(name, ()))

    def per_node(self, resource: str) -> dict[int, int]:
        """How many devices of the resource are held on each NUMA node."""
        counts = dict.fromkeys(sorted(set(self.node_of.values())), 0)
        for held in self.devices.values():
            for device in held.get(resource, ()):
                counts[self.node_of[device]] += 1
        return counts

    def node_sequence(self, pods: Iterable[Pod], resource: str) -> list[tuple[int, ...]]:
        """The NUMA nodes of each pod in turn, ascending, for the eye."""
        return [tuple(sorted(self.nodes(pod.name, resource))) for pod in pods]


def placement(backend: Backend, node_of: Mapping[str, int]) -> Placement:
    """Read where all pods' devices are, through PodResources."""
    devices: dict[str, dict[str, frozenset[str]]] = {}
    cpus: dict[str, frozenset[int]] = {}
    for pod, containers in backend.held().items():
        merged = devices.setdefault(pod, {})
        cpus[pod] = frozenset(cpu for held in containers.values() for cpu in held.cpus)
        for held in containers.values():
            for resource, ids in held.devices.items():
                merged[resource] = merged.get(resource, frozenset()) | ids
    return Placement(devices, node_of, cpus)
