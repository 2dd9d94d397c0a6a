"""Topology hints of the memory manager.

A hint is the same mask for every memory type that a container asks for: the nodes together hold enough of
each. It is preferred if no narrower mask could hold the request on the unused machine.

Reimplements kubelet v1.37.2 ``memorymanager/policy_static.go``: ``calculateHints``, ``isHintPreferred``,
``regenerateHints``, ``findBestHint``. Scores follow KEP-6007: reserved bytes of
allocatable ones, by type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from numaplace.engine.hint import Hint
from numaplace.engine.score import utilization_score
from numaplace.managers.memory.machine import MachineMemory, Sizes
from numaplace.managers.memory.reuse import MaskAndType
from numaplace.model.mask import is_narrower, mask_of, masks_by_width, nodes_of, width
from numaplace.model.names import ResourceName
from numaplace.model.podresources import MemoryBlock

Hints = Mapping[ResourceName, tuple[Hint, ...]]
"""Hints by memory type. Empty means "no preference" to the Topology Manager, even where nothing fits."""

_WRAP = 2**64


@dataclass(frozen=True, slots=True)
class Capacity:
    """Sums over every mask, fixed while the machine runs.

    ``masks`` are all NUMA masks, narrow first. ``subsets`` are the same ones and 0 in the order of
    ``_subset_sums``. ``sums`` holds the allocatable bytes of every mask, by type.
    """

    masks: tuple[int, ...]
    subsets: tuple[int, ...]
    sums: Mapping[ResourceName, Mapping[int, int]]

    def holding(self, requests: Sizes) -> Sequence[int]:
        """Return the masks that could hold the request on the unused machine, of every type."""
        holding: Sequence[int] = self.masks
        for type_, size in requests.items():
            sums = self.sums.get(type_)
            if sums is not None:
                holding = [mask for mask in holding if sums[mask] >= size]
            elif size > 0:
                return ()
        return holding

    def sums_of(self, values: Iterable[int]) -> dict[int, int]:
        """Return the sum for every mask; ``values`` holds one amount per node, by ascending id."""
        return dict(zip(self.subsets, _subset_sums(values), strict=True))


def capacity_of(machine: MachineMemory) -> Capacity:
    """Return the sums over every mask; time and space double with each NUMA node, as in the kubelet."""
    ids = sorted(machine.nodes)
    subsets = tuple(_subset_sums(1 << id_ for id_ in ids))
    types = sorted({type_ for node in machine.nodes.values() for type_ in node.tables})
    allocatable = {
        type_: _subset_sums(machine.nodes[id_].table(type_).allocatable for id_ in ids) for type_ in types
    }
    return Capacity(
        masks=tuple(masks_by_width(ids)),
        subsets=subsets,
        sums={type_: dict(zip(subsets, sums, strict=True)) for type_, sums in allocatable.items()},
    )


def _subset_sums(values: Iterable[int]) -> list[int]:
    """Return the sum of every subset, in binary order: each value doubles the list."""
    sums = [0]
    for value in values:
        sums += [(one + value) % _WRAP for one in sums]
    return sums


def calculate_hints(
    machine: MachineMemory, requests: Sizes, *, capacity: Capacity, reusable: Mapping[MaskAndType, int]
) -> Hints:
    """Return a hint per mask that can hold the request now, in the kubelet's order; empty if none can."""
    holding = capacity.holding(requests)
    fitting = open_masks(machine, holding)
    tables = {type_: [node.table(type_) for _, node in sorted(machine.nodes.items())] for type_ in requests}
    for type_, size in requests.items():
        free = capacity.sums_of(table.free for table in tables[type_])
        again = {mask: bytes_ for (mask, of), bytes_ in reusable.items() if of == type_}
        fitting = [mask for mask in fitting if (free[mask] + again.get(mask, 0)) % _WRAP >= size]
    if not fitting:
        return {}
    smallest = width(holding[0])
    hints: dict[ResourceName, tuple[Hint, ...]] = {}
    for type_ in requests:
        allocatable = capacity.sums.get(type_) or dict.fromkeys(capacity.subsets, 0)
        reserved = capacity.sums_of(table.reserved for table in tables[type_])
        hints[type_] = tuple(
            Hint(
                mask,
                preferred=width(mask) == smallest,
                score=utilization_score(allocatable[mask], reserved[mask]),
            )
            for mask in fitting
        )
    return hints


def open_masks(machine: MachineMemory, masks: Sequence[int]) -> list[int]:
    """Return the masks that groups allow: unused nodes, one whole group, or one node that is in no group."""
    groups = {1 << id_: mask_of(node.cells) for id_, node in machine.nodes.items() if len(node.cells) > 1}
    in_use = [1 << id_ for id_, node in machine.nodes.items() if node.assignments > 0]
    used = sum(in_use)
    shared = {
        mask
        for mask in (groups.get(bit, bit) for bit in in_use)
        if all(groups.get(bit, bit) == mask for bit in in_use if bit & mask)
    }
    return [mask for mask in masks if not mask & used or mask in shared]


def regenerate_hints(machine: MachineMemory, blocks: Sequence[MemoryBlock], requests: Sizes) -> Hints:
    """Return the one hint per type that says where the container's memory already is.

    Empty if the blocks do not match the request, for example after their reuse.
    """
    if len(blocks) != len(requests) or any(requests.get(one.type) != one.size_bytes for one in blocks):
        return {}
    hints: dict[ResourceName, tuple[Hint, ...]] = dict.fromkeys(requests, ())
    for block in blocks:
        mask = mask_of(block.nodes)
        hints[block.type] += (Hint(mask, preferred=True, score=_score(machine, mask, block.type)),)
    return hints


def _score(machine: MachineMemory, mask: int, type_: ResourceName) -> int:
    tables = [machine.nodes[id_].table(type_) for id_ in nodes_of(mask)]
    return utilization_score(sum(one.allocatable for one in tables), sum(one.reserved for one in tables))


def best_hint(hints: Sequence[Hint]) -> Hint | None:
    """Return the preferred hint with the narrowest mask, else the narrowest; None of none."""
    best: Hint | None = None
    for hint in hints:
        if best is None or _is_better(hint, best):
            best = hint
    return best


def _is_better(hint: Hint, best: Hint) -> bool:
    if hint.preferred != best.preferred:
        return hint.preferred
    return is_narrower(hint.mask or 0, best.mask or 0)
