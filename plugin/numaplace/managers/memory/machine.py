"""The memory of every NUMA node: capacity, reservations, and which nodes form a group.

A multi-node allocation ties its nodes into a group ("cells"): until the last allocation of a node ends, the
node serves only allocations on exactly that group. A node with a one-node allocation serves only one-node
allocations.

Reimplements kubelet v1.37.2 ``memorymanager/state`` (``MemoryTable``, ``NUMANodeState``, ``NUMANodeMap``) and
``memorymanager/policy_static.go``: ``getDefaultMachineState``, ``updateMachineState``, ``releaseMemory``,
``isAffinitySatisfyRequest``, ``isAffinityViolatingNUMAAllocations``, ``GetAllocatableMemory``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from numaplace.model.mask import mask_of, nodes_of
from numaplace.model.names import HUGEPAGES_PREFIX, MEMORY, ResourceName
from numaplace.model.podresources import MemoryBlock

Sizes = Mapping[ResourceName, int]
"""Bytes by memory type."""

# The kubelet counts in uint64 without checking: a node with more reserved than it has wraps around.
_WRAP = 2**64


@dataclass(frozen=True, slots=True)
class MemoryTable:
    """One memory type of one NUMA node, in bytes. ``allocatable`` = ``reserved`` + ``free``."""

    total: int = 0
    system_reserved: int = 0
    allocatable: int = 0
    reserved: int = 0
    free: int = 0

    def taking(self, size_bytes: int) -> MemoryTable:
        """Return the table with ``size_bytes`` (negative: given back) moved from free to reserved."""
        return replace(self, reserved=self.reserved + size_bytes, free=self.free - size_bytes)


NO_MEMORY = MemoryTable()


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """One NUMA node. ``assignments`` counts one per memory type and container; ``cells`` is its group."""

    tables: Mapping[ResourceName, MemoryTable]
    cells: tuple[int, ...]
    assignments: int = 0

    def table(self, type_: ResourceName) -> MemoryTable:
        """Return the table of a type; all zeros for a type that the node lacks.

        The kubelet expects the same page sizes on every node and would panic on a missing one; Linux lists
        all page sizes for every node.
        """
        return self.tables.get(type_, NO_MEMORY)

    def with_table(self, type_: ResourceName, table: MemoryTable) -> NodeMemory:
        return replace(self, tables={**self.tables, type_: table})


@dataclass(frozen=True, slots=True)
class MachineMemory:
    """All NUMA nodes by id. A mask that names a node the machine lacks raises ``KeyError``."""

    nodes: Mapping[int, NodeMemory]

    def satisfies(self, mask: int, requests: Sizes) -> bool:
        """Return whether the mask's nodes have the requested bytes free, of every type."""
        nodes = [self.nodes[node] for node in nodes_of(mask)]
        return all(
            sum(node.table(type_).free for node in nodes) % _WRAP >= size for type_, size in requests.items()
        )

    def violates_groups(self, mask: int) -> bool:
        """Return whether a multi-node mask would share a used node with another group or a single node."""
        ids = nodes_of(mask)
        if len(ids) == 1:
            return False
        used = [self.nodes[node] for node in ids if self.nodes[node].assignments]
        return any(mask_of(node.cells) != mask for node in used)

    def assign(self, nodes: tuple[int, ...], type_: ResourceName, *, size_bytes: int) -> MachineMemory:
        """Take bytes from the nodes in their order and tie the nodes into a group.

        Every node counts the assignment, also where nothing is left to take. What the nodes lack is not
        taken: reused memory of init containers stands in for it.
        """
        changed = dict(self.nodes)
        for id_ in nodes:
            node = changed[id_]
            node = replace(node, assignments=node.assignments + 1, cells=nodes)
            taken = min(node.table(type_).free, size_bytes)
            if taken:
                node = node.with_table(type_, node.table(type_).taking(taken))
                size_bytes -= taken
            changed[id_] = node
        return MachineMemory(changed)

    def release(self, block: MemoryBlock) -> MachineMemory:
        """Give a block back, filling its nodes in order; a node without assignments leaves its group.

        Within a group the bytes may return to another node than they came from: only the group's sum counts.
        """
        changed = dict(self.nodes)
        size_bytes = block.size_bytes
        for id_ in block.nodes:
            node = changed[id_]
            left = node.assignments - 1
            node = replace(node, assignments=left, cells=node.cells if left else (id_,))
            given = min(node.table(block.type).reserved, size_bytes)
            if given:
                node = node.with_table(block.type, node.table(block.type).taking(-given))
                size_bytes -= given
            changed[id_] = node
        return MachineMemory(changed)

    def allocatable_blocks(self) -> tuple[MemoryBlock, ...]:
        """Return one block per node and type that has allocatable bytes (the kubelet: in random order)."""
        return tuple(
            MemoryBlock(type=type_, size_bytes=node.tables[type_].allocatable, nodes=(id_,))
            for id_, node in sorted(self.nodes.items())
            for type_ in sorted(node.tables)
            if node.tables[type_].allocatable
        )


def machine_memory(node_sizes: Mapping[int, Sizes], reserved: Mapping[int, Sizes]) -> MachineMemory:
    """Return the unused machine.

    ``node_sizes`` holds each NUMA node's bytes by type, where ``memory`` is all of the node's memory,
    hugepages included. ``reserved`` holds what ``reservedMemory`` keeps for the system, by node and type.
    """
    return MachineMemory(
        {id_: _unused_node(id_, sizes, reserved.get(id_, {})) for id_, sizes in sorted(node_sizes.items())}
    )


def _unused_node(id_: int, sizes: Sizes, reserved: Sizes) -> NodeMemory:
    tables = {}
    hugepages = {type_: size for type_, size in sizes.items() if type_.startswith(HUGEPAGES_PREFIX)}
    for type_, total in {MEMORY: sizes.get(MEMORY, 0), **hugepages}.items():
        kept = reserved.get(type_, 0)
        in_hugepages = sum(hugepages.values()) if type_ == MEMORY else 0
        allocatable = (total - kept - in_hugepages) % _WRAP
        tables[type_] = MemoryTable(
            total=total, system_reserved=kept, allocatable=allocatable, free=allocatable
        )
    return NodeMemory(tables=tables, cells=(id_,))
