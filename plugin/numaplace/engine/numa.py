"""Structural comparison of NUMA affinity masks. Follows kubelet ``numa_info.go``."""

from __future__ import annotations

from numaplace.model.mask import is_narrower, nodes_of, width
from numaplace.model.topology import NumaTopology


def narrowest(a: int, b: int) -> int:
    """Return the mask with fewer nodes, of equally wide ones the one with the lower ids (``Narrowest``)."""
    return a if is_narrower(a, b) else b


def closest(topology: NumaTopology, a: int, b: int) -> int:
    """Return the mask whose nodes are closer to each other (``Closest``).

    Masks of different width are compared by width; equally wide and equally close ones by lower ids.
    """
    if width(a) != width(b):
        return narrowest(a, b)
    distance_a, distance_b = average_distance(topology, a), average_distance(topology, b)
    if distance_a == distance_b:
        return min(a, b)
    return a if distance_a < distance_b else b


def average_distance(topology: NumaTopology, mask: int) -> float:
    """Return the mean distance over all ordered pairs of the mask's nodes, each with itself included.

    0 for the empty mask (``CalculateAverageFor``). Sums are whole numbers and the division is rounded once,
    as in the kubelet, so that masks tie here exactly when they tie there.
    """
    nodes = nodes_of(mask)
    if not nodes:
        return 0.0
    total = sum(topology.distance(a, b) for a in nodes for b in nodes)
    return total / (len(nodes) * len(nodes))
