"""The rules of ``reservedMemory``: the kubelet does not start if they are broken.

Its sum by type must equal what the kubelet keeps back from pods: ``systemReserved`` + ``kubeReserved`` +
the hard eviction threshold ``memory.available`` (kubernetes/kubernetes#109766).

Reimplements kubelet v1.37.2 ``apis/config/validation``: ``validateReservedMemoryConfiguration``;
``memorymanager/memory_manager.go``: ``getTotalMemoryTypeReserved``, ``validateReservedMemory``,
``convertReserved``; ``cm``: ``GetNodeAllocatableReservation``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from numaplace.errors import InputError
from numaplace.managers.memory.machine import Sizes
from numaplace.model.names import MEMORY, ResourceName, is_memory


@dataclass(frozen=True, slots=True)
class MemoryReservation:
    """One entry of ``reservedMemory``: bytes by type on one NUMA node."""

    node: int
    limits: Sizes


def node_allocatable_reservation(
    *, system_reserved: Sizes, kube_reserved: Sizes, hard_eviction_bytes: int
) -> Sizes:
    """Return what is kept back from pods by memory type, without types of 0 bytes."""
    total: Counter[ResourceName] = Counter()
    for sizes in (system_reserved, kube_reserved, {MEMORY: hard_eviction_bytes}):
        total.update({type_: size for type_, size in sizes.items() if is_memory(type_)})
    return {type_: size for type_, size in total.items() if size}


def reserved_memory(
    reservations: Sequence[MemoryReservation], *, nodes: Collection[int], reservation: Sizes
) -> dict[int, dict[ResourceName, int]]:
    """Return the reserved bytes of every node by type, for ``machine_memory``.

    ``nodes`` are the machine's NUMA nodes, ``reservation`` comes from ``node_allocatable_reservation``.
    Raises ``InputError`` with every problem on a line of its own.
    """
    problems = [*_entry_problems(reservations, nodes), *_sum_problems(reservations, reservation)]
    if problems:
        raise InputError("\n".join(problems))
    reserved: dict[int, dict[ResourceName, int]] = {node: {} for node in nodes}
    for one in reservations:
        reserved[one.node].update(one.limits)
    return reserved


def _entry_problems(reservations: Sequence[MemoryReservation], nodes: Collection[int]) -> Iterator[str]:
    seen: set[tuple[int, ResourceName]] = set()
    for one in reservations:
        where = f"reservedMemory of NUMA node {one.node}"
        if one.node not in nodes:
            known = ", ".join(map(str, sorted(nodes)))
            yield f"{where}: the machine has no such NUMA node, only {known}"
        for type_, size in one.limits.items():
            if not is_memory(type_):
                yield f"{where}: {type_} cannot be reserved, only memory and hugepages-<size>"
            if size <= 0:
                yield f"{where}: {type_} must be more than 0 bytes"
            if (one.node, type_) in seen:
                yield f"{where}: {type_} is given twice"
            seen.add((one.node, type_))


def _sum_problems(reservations: Sequence[MemoryReservation], reservation: Sizes) -> Iterator[str]:
    totals: Counter[ResourceName] = Counter()
    for one in reservations:
        totals.update(one.limits)
    expected = {type_: size for type_, size in reservation.items() if is_memory(type_)}
    for type_ in sorted({*totals, *expected}):
        total, wanted = totals[type_], expected.get(type_, 0)
        if total != wanted and is_memory(type_):
            yield (
                f"reservedMemory: {type_} adds up to {total} bytes over all NUMA nodes but must be {wanted},"
                " the sum of systemReserved, kubeReserved and the hard eviction threshold"
            )
