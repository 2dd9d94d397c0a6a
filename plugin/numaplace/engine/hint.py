"""Topology hints: what one provider offers, and the result of merging several offers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hint:
    """A NUMA affinity, whether it is as narrow as the hardware allows, and how full its nodes are.

    Follows kubelet ``TopologyHint`` with the ``Score`` field of KEP-6007.

    ``mask`` is a NUMA affinity mask; ``None`` means any NUMA node (no affinity), 0 means that no node fits.
    ``score`` is a utilization in percent, 1 to 100; 0 means "no signal", not "empty".
    """

    mask: int | None
    preferred: bool
    score: int = 0


ANY_NODE = Hint(None, preferred=True)
"""The hint of a provider that has no preference."""

NO_NODE = Hint(None, preferred=False)
"""The hint that stands for a resource no NUMA node set can give."""
