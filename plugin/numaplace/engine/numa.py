"""Distances in a NUMA affinity mask. Follows kubelet ``numa_info.go``."""

from __future__ import annotations

from numaplace.model.mask import nodes_of
from numaplace.model.topology import NumaTopology


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
