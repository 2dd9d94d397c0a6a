"""Collect CPUs from the free ones, whole units first. Follows kubelet ``cpuAccumulator``.

Elements are always sorted by (free CPUs in them, id): the fullest that still has something first. Levels are
walked from the outermost in, and an element that lies in several outer ones appears once in each, as in the
kubelet. That matters on machines whose sockets and NUMA nodes cross: the kubelet then counts the element
again when it is met again, and so does this code.

A socket or core counts as free if it has as many free CPUs as the average one has CPUs, and is then taken
whole. Where cores or sockets are unequal (hybrid processors, CPUs offline) the kubelet so gives CPUs away
that were not offered, even another container's; so does this code.
"""

from __future__ import annotations

from collections.abc import Iterable

from numaplace.managers.cpu.bits import ascending, bits_of
from numaplace.managers.cpu.topology import CpuTopology, Level, Nested


class Accumulator:
    """``free`` CPUs to take from, the ``result`` so far, and how many are still ``needed``."""

    def __init__(self, topology: CpuTopology, available: int, wanted: int, *, spread: bool) -> None:
        self.topology = topology
        self.free = available & topology.all_bits
        self.needed = wanted
        self.result = 0
        self._spread = spread
        # With as many sockets as NUMA nodes or more, a NUMA node is taken to hold whole sockets.
        self._numa_first = topology.num_sockets >= topology.num_numa

    @property
    def satisfied(self) -> bool:
        return self.needed < 1

    @property
    def failed(self) -> bool:
        return self.needed > self.free.bit_count()

    def take(self, bits: int) -> None:
        """Take the CPUs. They count towards ``needed`` even if they were taken before."""
        self.result |= bits
        self.free &= ~self.result
        self.needed -= bits.bit_count()

    def _order(self, ids: Iterable[int], level: Level) -> list[int]:
        free = self.free
        return sorted(ids, key=lambda one: ((free & level[one]).bit_count(), one))

    def _with_free(self, nested: Nested, outer: int) -> list[int]:
        free = self.free
        return [inner for inner, common in nested[outer] if free & common]

    def sorted_numa(self) -> list[int]:
        """Return the NUMA nodes with free CPUs (``sortAvailableNUMANodes``)."""
        topology = self.topology
        if self._numa_first:
            free = self.free
            return self._order((node for node, bits in topology.numa.items() if free & bits), topology.numa)
        return [
            node
            for socket in self.sorted_sockets()
            for node in self._order(self._with_free(topology.numa_in_socket, socket), topology.numa)
        ]

    def sorted_sockets(self) -> list[int]:
        """Return the sockets with free CPUs (``sortAvailableSockets``)."""
        topology = self.topology
        if not self._numa_first:
            free = self.free
            return self._order(
                (socket for socket, bits in topology.sockets.items() if free & bits), topology.sockets
            )
        return [
            socket
            for node in self.sorted_numa()
            for socket in self._order(self._with_free(topology.sockets_in_numa, node), topology.sockets)
        ]

    def sorted_cores(self) -> list[int]:
        """Return the cores with free CPUs (``sortAvailableCores``)."""
        topology = self.topology
        if self._numa_first:
            outer, nested = self.sorted_sockets(), topology.cores_in_socket
        else:
            outer, nested = self.sorted_numa(), topology.cores_in_numa
        return [core for one in outer for core in self._order(self._with_free(nested, one), topology.cores)]

    def sorted_uncore(self) -> list[int]:
        """Return the last-level caches with free CPUs (``sortAvailableUncoreCaches``)."""
        topology = self.topology
        return [
            cache
            for node in self.sorted_numa()
            for cache in self._order(self._with_free(topology.uncore_in_numa, node), topology.uncore)
        ]

    def sorted_cpus(self) -> list[int]:
        """Return the free CPUs: core by core, or, spread, socket by socket in the order of the ids."""
        topology = self.topology
        ids, level = (
            (self.sorted_sockets(), topology.sockets)
            if self._spread
            else (self.sorted_cores(), topology.cores)
        )
        return [cpu for one in ids for cpu in ascending(self.free & level[one])]

    def take_full_first_level(self) -> None:
        """Take whole NUMA nodes, or whole sockets where those hold the NUMA nodes."""
        if self._numa_first:
            self._take_full_numa()
        else:
            self._take_full_sockets()

    def take_full_second_level(self) -> None:
        """Take the other of the two."""
        if self._numa_first:
            self._take_full_sockets()
        else:
            self._take_full_numa()

    def _take_whole(self, ids: Iterable[int], level: Level) -> None:
        for one in ids:
            if self.needed >= level[one].bit_count():
                self.take(level[one])

    def _take_full_numa(self) -> None:
        level, free = self.topology.numa, self.free
        self._take_whole([one for one in self.sorted_numa() if level[one] & ~free == 0], level)

    def _take_full_sockets(self) -> None:
        # Free means as many free CPUs as an average socket has; the same goes for cores.
        level, free, size = self.topology.sockets, self.free, self.topology.cpus_per_socket
        whole = [one for one in self.sorted_sockets() if (free & level[one]).bit_count() == size]
        self._take_whole(whole, level)

    def _take_full_uncore(self) -> None:
        level, free = self.topology.uncore, self.free
        self._take_whole([one for one in self.sorted_uncore() if level[one] & ~free == 0], level)

    def take_full_cores(self) -> None:
        """Take whole cores (``takeFullCores``)."""
        level, free, size = self.topology.cores, self.free, self.topology.cpus_per_core
        whole = [one for one in self.sorted_cores() if (free & level[one]).bit_count() == size]
        self._take_whole(whole, level)

    def take_uncore(self) -> None:
        """Take whole last-level caches, then the rest from one cache if it fits (``takeUncoreCache``)."""
        size = self.topology.cpus_per_uncore
        for cache in self.sorted_uncore():
            if self.needed >= size:
                self._take_full_uncore()
            if self.satisfied:
                return
            self._take_partial_uncore(cache)
            if self.satisfied:
                return

    def _take_partial_uncore(self, cache: int) -> None:
        """Take what is needed from the lowest free cores of the cache, if that is exactly what they give."""
        topology = self.topology
        per_core = topology.cpus_per_core
        wanted_cores = (self.needed + per_core - 1) // per_core
        cores = self._with_free(topology.cores_in_uncore, cache)[:wanted_cores]
        bits = 0
        for core in cores:
            bits |= self.free & topology.cores[core]
        if self.needed % 2 and per_core > 1 and bits.bit_count() > self.needed:
            bits ^= 1 << bits.bit_length() - 1
        if bits.bit_count() == self.needed:
            self.take(bits)

    def take_remaining(self) -> None:
        """Take single CPUs until nothing is needed (``takeRemainingCPUs``)."""
        for cpu in self.sorted_cpus():
            self.take(bits_of((cpu,)))
            if self.satisfied:
                return
