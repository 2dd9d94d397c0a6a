"""Which NUMA node is as good as another one for every request, whatever it asks for.

Take a node x that shows, of every device resource, at least as many free devices as there are free on node s,
and has as many exclusive CPUs and as much of every memory type. What s can hold x can hold, also where the
amounts are those of a whole pod: sums are compared just the same. x shows what it has, so the kubelet finds
it wherever it would have found s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from numaplace.engine.options import PolicyName
from numaplace.managers.cpu.static import StaticCpuPolicy
from numaplace.managers.memory.static import StaticMemoryPolicy
from numaplace.model.names import CPU, ResourceName
from numaplace.prediction.model import KubeletModel
from numaplace.prediction.predict import Withheld
from numaplace.prediction.preferred_masks import PreferredMasks
from numaplace.prediction.state import DeviceGroups, SteeringState


@dataclass(frozen=True, slots=True)
class Dominance:
    """Compares the NUMA nodes in one state."""

    node: KubeletModel
    state: SteeringState
    tables: PreferredMasks

    @property
    def ours(self) -> list[ResourceName]:
        """The steerable resources of the node."""
        return sorted(self.node.steerable & self.state.devices.keys())

    @property
    def compute(self) -> Iterator[ResourceName]:
        """Yield what the CPU manager and the memory manager hand out."""
        if isinstance(self.node.cpu, StaticCpuPolicy):
            yield CPU
        if isinstance(self.node.memory, StaticMemoryPolicy):
            yield from sorted(self.node.memory.capacity.sums)

    def may_span(self) -> bool:
        """Return whether a request may be admitted on several nodes, which no comparison of nodes covers."""
        if self.node.policy == PolicyName.SINGLE_NUMA_NODE:
            return False
        cpu = self.node.cpu
        by_socket = isinstance(cpu, StaticCpuPolicy) and cpu.options.align_by_socket
        if self.node.policy != PolicyName.RESTRICTED or by_socket:
            return True
        for resource in self.ours:
            groups = self.state.devices[resource]
            most = max(_touching(groups, node, "total") for node in self.node.topology.nodes)
            if sum(group.free for group in groups if group.mask) > most:
                return True
        return False

    def covers(self, x: int, others: Iterable[int], withheld: Withheld) -> bool:
        """Return whether x, as the set leaves it, is as good as each other node, and as x without it."""
        if self.state.unsettled >> x & 1:
            return False
        others = [node for node in others if node != x]
        return (
            all(
                self._shown(resource, x, withheld) >= _touching(groups, node, "free")
                for resource, groups in self.state.devices.items()
                for node in (x, *others)
            )
            and all(self.free(name, x) >= self.free(name, node) for name in self.compute for node in others)
            and self._memory_open(x, others)
        )

    def right_for_any(self, withheld: Withheld) -> bool:
        """Return whether the set is right for every request: of each node that it touches another is as good.

        A node of which nothing is hidden stays what it was, and so does what the kubelet puts there.
        """
        nodes = self.node.topology.nodes
        touched = [node for node in nodes if self._hides(node, withheld)]
        return all(any(self.covers(x, (node,), withheld) for x in nodes) for node in touched)

    def free(self, resource: ResourceName, node: int) -> int:
        """Return the free devices, CPUs or bytes of a node; those without topology included."""
        if resource == CPU:
            return self.tables.free_cpus(1 << node)
        groups = self.state.devices.get(resource)
        if groups is not None:
            return _touching(groups, node, "free")
        return self.tables.free_bytes(resource, 1 << node) if self.tables.is_open(1 << node) else 0

    def _hides(self, node: int, withheld: Withheld) -> bool:
        return any(
            group.free and group.mask >> node & 1 and group.mask & withheld.get(resource, 0)
            for resource, groups in self.state.devices.items()
            for group in groups
        )

    def _shown(self, resource: ResourceName, x: int, withheld: Withheld) -> int:
        hidden = withheld.get(resource, 0)
        groups = self.state.devices[resource]
        return sum(group.free for group in groups if group.mask >> x & 1 and not group.mask & hidden)

    def _memory_open(self, x: int, others: Iterable[int]) -> bool:
        """Return whether x may serve one-node memory requests if any other node may."""
        if not isinstance(self.node.memory, StaticMemoryPolicy) or self.tables.is_open(1 << x):
            return True
        return not any(self.tables.is_open(1 << node) for node in others)


def _touching(groups: DeviceGroups, node: int, what: str) -> int:
    return sum(int(getattr(group, what)) for group in groups if group.mask >> node & 1)
