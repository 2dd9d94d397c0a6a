"""The CPUs of a node and what they share. Follows kubelet ``cpumanager/topology/topology.go``.

Ids of NUMA nodes, sockets, caches and cores are taken as they are: sparse, or shared between levels that do
not nest (a socket in several NUMA nodes and the reverse). Every relation is therefore an intersection of CPU
sets, never an assumed tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from numaplace.errors import InputError
from numaplace.managers.cpu.bits import bits_of, cpus_of
from numaplace.model.mask import mask_of, masks_by_width, nodes_of

# Beyond this many NUMA nodes with CPUs their masks are counted at each use instead of being kept.
_KEPT_MASK_NODES = 12


@dataclass(frozen=True, slots=True)
class CpuDetail:
    """Where one CPU (a hardware thread) is.

    ``core`` must be unique on the node: the kubelet takes the core's lowest CPU id. ``uncore_cache`` is the
    id of the last-level cache; the kubelet takes the socket's id where the machine reports none.
    """

    numa: int
    socket: int
    core: int
    uncore_cache: int


Level = Mapping[int, int]
"""Id of a NUMA node, socket, cache or core -> the bits of its CPUs."""

Nested = Mapping[int, tuple[tuple[int, int], ...]]
"""Id of an outer element -> the inner elements with CPUs in it, ascending: (id, bits in common)."""


@dataclass(frozen=True, slots=True)
class MaskSize:
    """A set of NUMA nodes with CPUs: their number, all their CPUs as bits, and how many CPUs and sockets."""

    mask: int
    nodes: int
    bits: int
    cpus: int
    sockets: int


@dataclass(frozen=True, slots=True)
class CpuTopology:
    """The CPUs of a node; make it with ``CpuTopology.of``.

    The numbers are the machine's own: the kubelet takes those of sockets, cores and CPUs from cAdvisor, not
    by counting ``details``, and derives average sizes from them.
    """

    details: Mapping[int, CpuDetail]
    num_cpus: int
    num_cores: int
    num_uncore: int
    num_sockets: int
    num_numa: int
    all_bits: int
    numa: Level
    sockets: Level
    cores: Level
    uncore: Level
    sockets_in_numa: Nested
    numa_in_socket: Nested
    cores_in_numa: Nested
    cores_in_socket: Nested
    uncore_in_numa: Nested
    cores_in_uncore: Nested
    numa_masks: tuple[MaskSize, ...]

    @classmethod
    def of(
        cls,
        details: Mapping[int, CpuDetail],
        *,
        num_cpus: int | None = None,
        num_cores: int | None = None,
        num_uncore: int | None = None,
        num_sockets: int | None = None,
        num_numa: int | None = None,
    ) -> CpuTopology:
        """Return the topology of the CPUs ``id -> detail``; a number that is not given is counted.

        Raises ``InputError`` for a node without CPUs, and for numbers from which no average size follows.
        """
        if not details:
            raise InputError("a CPU topology needs at least one CPU")
        kept = dict(sorted(details.items()))
        numa = _level(kept, lambda detail: detail.numa)
        sockets = _level(kept, lambda detail: detail.socket)
        cores = _level(kept, lambda detail: detail.core)
        uncore = _level(kept, lambda detail: detail.uncore_cache)
        sockets_in_numa = _nested(numa, sockets)
        cpus_count = len(kept) if num_cpus is None else num_cpus
        cores_count = len(cores) if num_cores is None else num_cores
        if not 1 <= cores_count <= cpus_count:
            raise InputError(f"a CPU topology of {cores_count} cores and {cpus_count} CPUs is impossible")
        return cls(
            details=kept,
            num_cpus=cpus_count,
            num_cores=cores_count,
            num_uncore=len(uncore) if num_uncore is None else num_uncore,
            num_sockets=len(sockets) if num_sockets is None else num_sockets,
            num_numa=len(numa) if num_numa is None else num_numa,
            all_bits=bits_of(kept),
            numa=numa,
            sockets=sockets,
            cores=cores,
            uncore=uncore,
            sockets_in_numa=sockets_in_numa,
            numa_in_socket=_nested(sockets, numa),
            cores_in_numa=_nested(numa, cores),
            cores_in_socket=_nested(sockets, cores),
            uncore_in_numa=_nested(numa, uncore),
            cores_in_uncore=_nested(uncore, cores),
            numa_masks=tuple(_mask_sizes(numa, sockets_in_numa)) if len(numa) <= _KEPT_MASK_NODES else (),
        )

    @property
    def cpus(self) -> frozenset[int]:
        return cpus_of(self.all_bits)

    @property
    def cpus_per_core(self) -> int:
        """CPUs per core on average, rounded down (``CPUsPerCore``)."""
        return self.num_cpus // self.num_cores

    @property
    def cpus_per_socket(self) -> int:
        """CPUs per socket on average, rounded down (``CPUsPerSocket``)."""
        return self.num_cpus // self.num_sockets if self.num_sockets else 0

    @property
    def cpus_per_uncore(self) -> int:
        """CPUs per last-level cache on average, rounded down (``CPUsPerUncore``)."""
        return self.num_cpus // self.num_uncore if self.num_uncore else 0

    def bits_in_numa(self, nodes: Iterable[int]) -> int:
        """Return the CPUs of the NUMA nodes (``CPUsInNUMANodes``)."""
        bits = 0
        for node in nodes:
            bits |= self.numa.get(node, 0)
        return bits

    def bits_in_sockets_of(self, nodes: Iterable[int]) -> int:
        """Return the CPUs of every socket that has a CPU in one of the NUMA nodes."""
        bits = 0
        for socket in self.sockets_of(nodes):
            bits |= self.sockets[socket]
        return bits

    def sockets_of(self, nodes: Iterable[int]) -> frozenset[int]:
        """Return the ids of the sockets of the NUMA nodes (``SocketsInNUMANodes``)."""
        return frozenset(socket for node in nodes for socket, _ in self.sockets_in_numa.get(node, ()))

    def bits_of_cores_of(self, bits: int) -> int:
        """Return the CPUs together with all their siblings."""
        whole = 0
        for core_bits in self.cores.values():
            if core_bits & bits:
                whole |= core_bits
        return whole

    def mask_sizes(self) -> Iterable[MaskSize]:
        """Return every set of NUMA nodes with CPUs, narrow first, as the kubelet walks them.

        Their number doubles with each node; the kubelet's Topology Manager takes 8 by default.
        """
        return self.numa_masks or _mask_sizes(self.numa, self.sockets_in_numa)


def _level(details: Mapping[int, CpuDetail], key: Callable[[CpuDetail], int]) -> dict[int, int]:
    level: dict[int, int] = {}
    for cpu, detail in details.items():
        level[key(detail)] = level.get(key(detail), 0) | 1 << cpu
    return dict(sorted(level.items()))


def _nested(outer: Level, inner: Level) -> dict[int, tuple[tuple[int, int], ...]]:
    return {
        outer_id: tuple(
            (inner_id, outer_bits & inner_bits)
            for inner_id, inner_bits in inner.items()
            if outer_bits & inner_bits
        )
        for outer_id, outer_bits in outer.items()
    }


def _mask_sizes(numa: Level, sockets_in_numa: Nested) -> Iterable[MaskSize]:
    mask_of(numa)  # refuses node ids that no affinity mask can hold
    for mask in masks_by_width(numa):
        nodes = nodes_of(mask)
        bits = 0
        for node in nodes:
            bits |= numa[node]
        sockets = {socket for node in nodes for socket, _ in sockets_in_numa[node]}
        yield MaskSize(mask, len(nodes), bits, bits.bit_count(), len(sockets))
