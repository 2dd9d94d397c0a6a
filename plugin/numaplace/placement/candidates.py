"""Which NUMA masks can hold a request, narrow ones first, without walking the subsets of a large machine.

Only nodes with devices matter, and only the first width that fits: a wider mask never wins against a
narrower one (KEP-6007, "Allocation-Aware Policy Options", step 2). Where even that width has too many
combinations, a bounded number of masks is grown greedily instead (k/k #135541: 2^34 masks on a real machine).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from math import comb

from numaplace.model.mask import mask_of, nodes_of, union_of, width
from numaplace.model.topology import NumaTopology

MAX_COMBINATIONS = 256

MaskCounts = Mapping[int, int]
"""How many devices have exactly this NUMA mask; masks are not 0."""


def count_in(counts: MaskCounts, mask: int) -> int:
    """Return how many devices have any of their nodes in the mask (the kubelet's rule for a device)."""
    return sum(count for device_mask, count in counts.items() if device_mask & mask)


def candidate_masks(
    counts: MaskCounts, size: int, *, required: Iterable[int] = (), topology: NumaTopology
) -> tuple[int, ...]:
    """Return the masks of the narrowest width that hold ``size`` of the counted devices.

    ``required`` are the masks of devices that must be included: each must meet the candidate. Empty if the
    devices with topology are too few. At most a few hundred masks, ascending.
    """
    nodes = nodes_of(union_of(counts))
    if size <= 0 or sum(counts.values()) < size:
        return ()
    musts = tuple(mask for mask in required if mask)
    fixed = union_of(mask for mask in musts if width(mask) == 1)
    free = [node for node in nodes if not fixed & (1 << node)]
    orders: list[list[int]] = []
    for wanted in range(max(1, width(fixed)), len(nodes) + 1):
        extra = wanted - width(fixed)
        if extra > len(free) or not _may_fit(counts, free, fixed, extra=extra, size=size):
            continue
        if comb(len(free), extra) <= MAX_COMBINATIONS:
            grown = [fixed | mask_of(chosen) for chosen in combinations(free, extra)]
        else:
            orders = orders or _growth_orders(counts, free, fixed, topology=topology)
            grown = [fixed | mask_of(order[:extra]) for order in orders]
        fitting = sorted(
            {m for m in grown if count_in(counts, m) >= size and all(m & must for must in musts)}
        )
        if fitting:
            return tuple(fitting)
    return (union_of(counts) | fixed,)


def _may_fit(counts: MaskCounts, free: list[int], fixed: int, *, extra: int, size: int) -> bool:
    """Return false if ``extra`` more nodes cannot be enough: skips widths without walking them."""
    most = sorted((count_in(counts, 1 << node) for node in free), reverse=True)[:extra]
    return count_in(counts, fixed) + sum(most) >= size


def _growth_orders(
    counts: MaskCounts, free: list[int], fixed: int, *, topology: NumaTopology
) -> list[list[int]]:
    """Return two orders from each node, in which to add the others to ``fixed`` one by one.

    By device count alone, and by distance to what is in the mask already. Masks of all widths are their
    beginnings, so a machine of n nodes costs n times n squared steps in all.
    """
    held = {node: count_in(counts, 1 << node) for node in free}
    by_count = sorted(free, key=lambda node: (-held[node], node))
    orders = []
    for start in free:
        orders.append([start, *(node for node in by_count if node != start)])
        order = [start]
        there = (*nodes_of(fixed), start)
        remoteness = {
            node: sum(topology.distance(other, node) for other in there) for node in free if node != start
        }
        while remoteness:
            nearest = min(remoteness, key=lambda node: (remoteness[node], -held[node], node))
            del remoteness[nearest]
            order.append(nearest)
            for node in remoteness:
                remoteness[node] += topology.distance(nearest, node)
        orders.append(order)
    return orders
