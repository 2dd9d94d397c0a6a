"""The NUMA topology of a node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from numaplace.model.mask import mask_of

LOCAL_DISTANCE = 10
REMOTE_DISTANCE = 20


@dataclass(frozen=True, slots=True)
class NumaTopology:
    """NUMA node ids (ascending, possibly sparse), their CPUs and their distances.

    ``distances[a][b]`` is the firmware's relative distance (10 = local). A missing entry reads as
    10 on the diagonal and 20 elsewhere.
    """

    nodes: tuple[int, ...]
    cpus: Mapping[int, frozenset[int]] = field(default_factory=dict)
    distances: Mapping[int, Mapping[int, int]] = field(default_factory=dict)

    @property
    def mask(self) -> int:
        """The mask of all NUMA nodes (the kubelet's default affinity)."""
        return mask_of(self.nodes)

    def distance(self, a: int, b: int) -> int:
        return self.distances.get(a, {}).get(b, LOCAL_DISTANCE if a == b else REMOTE_DISTANCE)

    def node_of_cpu(self) -> dict[int, int]:
        return {cpu: node for node, cpus in self.cpus.items() for cpu in cpus}
