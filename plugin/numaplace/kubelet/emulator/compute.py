"""Exclusive CPUs and memory, simply: enough for a demo and for tests of what the API shows.

CPUs are the lowest free ids, memory and hugepages come from the fewest and lowest NUMA nodes that hold all of
both; inside the mask if one is given and it suffices. The containers of a pod reuse those of its init
containers. The kubelet's topology-aware packing of cores and its rules on node groups are not modelled.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from numaplace.errors import AllocationError
from numaplace.kubelet.emulator.values import ContainerSpec, EmulatedNode
from numaplace.managers.device_manager import ContainerKind, PodUid
from numaplace.model.mask import masks_by_width, nodes_of
from numaplace.model.names import CPU, MEMORY, ResourceName
from numaplace.model.podresources import MemoryBlock

CpuIds = frozenset[int]


@dataclass(frozen=True, slots=True)
class _Held:
    kind: ContainerKind
    cpus: CpuIds
    memory: tuple[MemoryBlock, ...]
    taken_bytes: Mapping[tuple[ResourceName, int], int]


class Compute:
    """The exclusive CPUs and memory of each container."""

    def __init__(self, node: EmulatedNode) -> None:
        all_cpus = frozenset(node.topology.node_of_cpu())
        self._node_of_cpu = node.topology.node_of_cpu()
        self._cpus: CpuIds = all_cpus - node.reserved_cpus if node.static_cpus else frozenset()
        self._static_cpus = node.static_cpus
        amounts = {MEMORY: node.memory_bytes, **node.hugepages_bytes} if node.static_memory else {}
        self._memory = amounts
        self._held: dict[tuple[PodUid, str], _Held] = {}

    @property
    def allocatable_cpus(self) -> CpuIds:
        """All CPUs but the reserved ones; none without the static policy."""
        return self._cpus

    @property
    def allocatable_memory(self) -> tuple[MemoryBlock, ...]:
        """One block per type and NUMA node; none without the Static policy."""
        return tuple(
            MemoryBlock(type=kind, size_bytes=size, nodes=(node,))
            for kind, amounts in self._memory.items()
            for node, size in sorted(amounts.items())
            if size
        )

    def cpus(self, pod: PodUid, container: str) -> CpuIds:
        held = self._held.get((pod, container))
        return held.cpus if held else frozenset()

    def memory(self, pod: PodUid, container: str) -> tuple[MemoryBlock, ...]:
        held = self._held.get((pod, container))
        return held.memory if held else ()

    def release_inactive(self, active: Collection[PodUid]) -> None:
        self._held = {key: held for key, held in self._held.items() if key[0] in active}

    def allocate(
        self, pod: PodUid, spec: ContainerSpec, *, kind: ContainerKind, affinity: int | None
    ) -> None:
        """Give a container its CPUs and memory; ``AllocationError`` with the resource name as the reason."""
        if (pod, spec.name) in self._held:
            return
        cpus = self._choose_cpus(pod, spec.cpus if self._static_cpus else 0, affinity=affinity)
        asked = {MEMORY: spec.memory_bytes, **spec.hugepages_bytes}
        wanted = {type_: size for type_, size in asked.items() if size and type_ in self._memory}
        blocks, taken = self._choose_memory(pod, wanted, affinity=affinity)
        self._held[pod, spec.name] = _Held(kind=kind, cpus=cpus, memory=blocks, taken_bytes=taken)

    def _others(self, pod: PodUid) -> Iterator[_Held]:
        """Yield what is taken for the next container of ``pod``."""
        for (holder, _), held in self._held.items():
            if holder != pod or held.kind is not ContainerKind.INIT:
                yield held

    def _choose_cpus(self, pod: PodUid, count: int, *, affinity: int | None) -> CpuIds:
        taken = frozenset[int]().union(*(held.cpus for held in self._others(pod)))
        free = self._cpus - taken
        if len(free) < count:
            raise AllocationError(f"{count} exclusive CPUs are needed, {len(free)} are free", reason=CPU)
        mask = -1 if affinity is None else affinity
        by_preference = sorted(free, key=lambda cpu: (not mask >> self._node_of_cpu[cpu] & 1, cpu))
        return frozenset(by_preference[:count])

    def _choose_memory(
        self, pod: PodUid, wanted: Mapping[ResourceName, int], *, affinity: int | None
    ) -> tuple[tuple[MemoryBlock, ...], Mapping[tuple[ResourceName, int], int]]:
        """Return one block per type, all from the same NUMA nodes (``policy_static.go``, calculateHints)."""
        free = {type_: dict(self._memory[type_]) for type_ in wanted}
        for held in self._others(pod):
            for (type_, node), taken in held.taken_bytes.items():
                if type_ in free:
                    free[type_][node] -= taken
        for type_, size in wanted.items():
            if size > (total := sum(free[type_].values())):
                raise AllocationError(f"{size} bytes of {type_} are needed, {total} are free", reason=type_)
        nodes = _first_with(wanted, free, affinity=affinity)
        blocks = (MemoryBlock(type=type_, size_bytes=size, nodes=nodes) for type_, size in wanted.items())
        shares = {
            (type_, node): share
            for type_, size in wanted.items()
            for node, share in _fill(nodes, free[type_], size=size).items()
            if share
        }
        return tuple(blocks), shares


def _first_with(
    wanted: Mapping[ResourceName, int],
    free: Mapping[ResourceName, Mapping[int, int]],
    *,
    affinity: int | None,
) -> tuple[int, ...]:
    """Return the fewest and lowest nodes that hold all of it; all nodes together do."""
    known = sorted({node for per_node in free.values() for node in per_node})
    inside = [node for node in known if affinity is None or affinity >> node & 1]
    for candidates in (inside, known):
        for mask in masks_by_width(candidates):
            nodes = nodes_of(mask)
            if all(sum(free[type_].get(node, 0) for node in nodes) >= size for type_, size in wanted.items()):
                return nodes
    return tuple(known)


def _fill(nodes: tuple[int, ...], free: Mapping[int, int], *, size: int) -> dict[int, int]:
    """Split ``size`` over ``nodes``, lowest first."""
    shares = {}
    for node in nodes:
        shares[node] = min(free.get(node, 0), size)
        size -= shares[node]
    return shares
