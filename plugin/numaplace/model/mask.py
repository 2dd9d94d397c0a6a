"""NUMA affinity masks: plain ``int``, bit *n* stands for NUMA node *n* (0 to 63).

Follows kubelet ``pkg/kubelet/cm/topologymanager/bitmask``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations

MAX_NODE = 63


def mask_of(nodes: Iterable[int]) -> int:
    """Return the mask with the given node ids set; ``ValueError`` outside 0..63."""
    mask = 0
    for node in nodes:
        if not 0 <= node <= MAX_NODE:
            raise ValueError(f"NUMA node id {node} is outside 0..{MAX_NODE}")
        mask |= 1 << node
    return mask


def union_of(masks: Iterable[int]) -> int:
    union = 0
    for mask in masks:
        union |= mask
    return union


def nodes_of(mask: int) -> tuple[int, ...]:
    nodes = []
    while mask:
        low = mask & -mask
        nodes.append(low.bit_length() - 1)
        mask ^= low
    return tuple(nodes)


def width(mask: int) -> int:
    return mask.bit_count()


def is_subset(inner: int, outer: int) -> bool:
    return inner & ~outer == 0


def is_narrower(a: int, b: int) -> bool:
    """Return whether ``a`` has fewer nodes, or as many and more of the low ids (bitmask.IsNarrowerThan)."""
    if width(a) == width(b):
        return a < b
    return width(a) < width(b)


def masks_by_width(nodes: Iterable[int], *, smallest: int = 1) -> Iterator[int]:
    """Yield every mask over ``nodes`` of at least ``smallest`` bits, narrow first (bitmask.IterateBitMasks).

    Their number doubles with each node: for the kubelet's reimplemented managers, which walk them too, not
    for an answer to the kubelet.
    """
    ids = sorted(nodes)
    for size in range(smallest, len(ids) + 1):
        for chosen in combinations(ids, size):
            yield mask_of(chosen)
