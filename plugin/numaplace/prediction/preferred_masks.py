"""What each resource offers, reduced to preferred NUMA masks: a hint list without the hints that cannot win.

A merged hint is preferred only if all its hints are preferred and name the same nodes
(``merge.merge_permutation``), and no other one beats it. So wherever the resources' preferred masks have one
in common, the others can be ignored: for a request that fits one NUMA node, at most one mask per node.

The offers are those of ``device_hints``, ``cpu_hints`` and ``calculate_hints`` for a pod that holds nothing
yet; the tests compare them with a kubelet of these managers.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import accumulate, combinations

from numaplace.engine.score import utilization_score
from numaplace.managers.cpu.static import StaticCpuPolicy
from numaplace.managers.cpu.topology import MaskSize
from numaplace.managers.memory.hints import open_masks
from numaplace.managers.memory.static import StaticMemoryPolicy
from numaplace.model.mask import mask_of, nodes_of, width
from numaplace.model.names import CPU, ResourceName
from numaplace.prediction.model import KubeletModel
from numaplace.prediction.request import AmountPairs
from numaplace.prediction.state import DeviceGroups, SteeringState

Offer = frozenset[int] | None
"""The preferred masks that can hold a request; ``None``: the resource prefers nothing."""

NO_MASK: frozenset[int] = frozenset()


class PreferredMasks:
    """The offers in one state. Answers are kept: many requests name the same amounts."""

    def __init__(self, node: KubeletModel, state: SteeringState) -> None:
        self._known = node.topology.mask
        self._state = state
        self._cpu = node.cpu if isinstance(node.cpu, StaticCpuPolicy) else None
        self._memory = node.memory if isinstance(node.memory, StaticMemoryPolicy) else None
        self._devices: dict[tuple[ResourceName, int, int], Offer] = {}
        self._cpus: dict[int, Offer] = {}
        self._bytes: dict[AmountPairs, Offer] = {}
        self._scores: dict[tuple[ResourceName, int], int] = {}
        self._free_cpus = 0 if self._cpu is None else self._cpu.available_bits(state.cpu)
        self._exclusive = state.cpu.exclusive_bits
        self._open: frozenset[int] = NO_MASK
        self._free_bytes: dict[ResourceName, dict[int, int]] = {}
        if self._memory is not None:
            capacity, machine = self._memory.capacity, state.memory.machine
            self._open = frozenset(open_masks(machine, capacity.masks))

    def free_devices(self, resource: ResourceName) -> int:
        return sum(group.free for group in self._state.devices[resource])

    def free_nodes(self, resource: ResourceName) -> int:
        mask = 0
        for group in self._state.devices.get(resource, ()):
            if group.free > 0:
                mask |= group.mask
        return mask

    def free_cpus(self, mask: int | None = None) -> int:
        if self._cpu is None:
            return 0
        local = -1 if mask is None else self._cpu.topology.bits_in_numa(nodes_of(mask))
        return (self._free_cpus & local).bit_count()

    def free_bytes(self, type_: ResourceName, mask: int) -> int:
        free = self._free_bytes.get(type_)
        if free is None:
            assert self._memory is not None  # noqa: S101 - only called with the Static policy
            nodes = sorted(self._state.memory.machine.nodes.items())
            free = self._memory.capacity.sums_of(node.table(type_).free for _, node in nodes)
            self._free_bytes[type_] = free
        return free[mask]

    def is_open(self, mask: int) -> bool:
        """Return whether the memory manager may serve a request from exactly these nodes."""
        return mask in self._open

    def devices(self, resource: ResourceName, size: int, *, hidden: int = 0) -> Offer:
        key = (resource, size, hidden)
        if key not in self._devices:
            self._devices[key] = device_offer(
                self._state.devices[resource], size, hidden=hidden, known=self._known
            )
        return self._devices[key]

    def cpus(self, count: int) -> Offer:
        """Return the CPU manager's offer (``cpu_hints`` without ``align-by-socket``)."""
        if self._cpu is None or count == 0:
            return None
        if count not in self._cpus:
            self._cpus[count] = _cpu_offer(self._cpu.topology.mask_sizes(), self._free_cpus, count)
        return self._cpus[count]

    def memory(self, requests: AmountPairs) -> Offer:
        """Return the memory manager's offer (``calculate_hints``)."""
        if self._memory is None or not requests:
            return None
        if requests not in self._bytes:
            self._bytes[requests] = self._memory_offer(requests)
        return self._bytes[requests]

    def holds_memory(self, requests: AmountPairs) -> bool:
        if self._memory is None or not requests or self.memory(requests):
            return True
        return any(self._fits(mask, requests) for mask in self._open)

    def score(self, resource: ResourceName, mask: int) -> int:
        key = (resource, mask)
        if key not in self._scores:
            self._scores[key] = utilization_score(*self.use(resource, mask))
        return self._scores[key]

    def use(self, resource: ResourceName, mask: int) -> tuple[int, int]:
        groups = self._state.devices.get(resource)
        if groups is not None:
            touching = [group for group in groups if group.mask & mask]
            return sum(group.healthy for group in touching), sum(group.allocated for group in touching)
        if resource == CPU and self._cpu is not None:
            local = self._cpu.topology.bits_in_numa(nodes_of(mask))
            allocatable = self._cpu.allocatable_bits & local
            return allocatable.bit_count(), (self._exclusive & local).bit_count()
        nodes = self._state.memory.machine.nodes
        tables = [nodes[node].table(resource) for node in nodes_of(mask) if node in nodes]
        return sum(one.allocatable for one in tables), sum(one.reserved for one in tables)

    def _memory_offer(self, requests: AmountPairs) -> Offer:
        assert self._memory is not None  # noqa: S101 - checked by the caller
        sums = self._memory.capacity.sums
        smallest = 0
        fitting = []
        for mask in self._memory.capacity.masks:
            if smallest and width(mask) > smallest:
                break
            if all(sums[type_][mask] >= size if type_ in sums else size <= 0 for type_, size in requests):
                smallest = width(mask)
                if self._fits(mask, requests):
                    fitting.append(mask)
        return frozenset(fitting)

    def _fits(self, mask: int, requests: AmountPairs) -> bool:
        return mask in self._open and all(self.free_bytes(type_, mask) >= size for type_, size in requests)


def device_offer(groups: DeviceGroups, size: int, *, hidden: int, known: int) -> Offer:
    """Return the preferred masks that ``device_hints`` gives; ``None`` where no device shows topology.

    Free devices that touch a node of ``hidden`` show none. ``known`` are the machine's nodes.
    """
    total: list[tuple[int, int]] = []
    free: list[tuple[int, int]] = []
    bearing = 0
    for group in groups:
        withheld = group.free if group.mask & hidden else 0
        shown = group.total - withheld
        if not group.mask or shown <= 0:
            continue
        bearing |= group.mask
        total.append((group.mask, shown))
        if group.free > withheld:
            free.append((group.mask, group.free))
    if not bearing:
        return None
    nodes = nodes_of(bearing & known) or nodes_of(known)
    narrowest: tuple[int, ...] = ()
    for number in range(_least_width(total, nodes, size), len(nodes) + 1):
        narrowest = _masks_of_width(nodes, number)
        if any(_touching(total, mask) >= size for mask in narrowest):
            break
    return frozenset(mask for mask in narrowest if _touching(free, mask) >= size)


def _least_width(total: Iterable[tuple[int, int]], nodes: tuple[int, ...], size: int) -> int:
    """Return below how many nodes no set touches enough: it has no more than its nodes by themselves."""
    by_node = sorted((_touching(total, 1 << node) for node in nodes), reverse=True)
    return next((width for width, sum_ in enumerate(accumulate(by_node), 1) if sum_ >= size), len(nodes))


def _touching(counts: Iterable[tuple[int, int]], mask: int) -> int:
    return sum([count for of, count in counts if of & mask])


@cache
def _masks_of_width(nodes: tuple[int, ...], number: int) -> tuple[int, ...]:
    return tuple(mask_of(chosen) for chosen in combinations(nodes, number))


def _cpu_offer(sizes: Iterable[MaskSize], available: int, wanted: int) -> Offer:
    narrowest = 0
    fitting = []
    for size in sizes:
        if narrowest and size.nodes > narrowest:
            break
        if size.cpus >= wanted:
            narrowest = size.nodes
            if (available & size.bits).bit_count() >= wanted:
                fitting.append(size.mask)
    return frozenset(fitting)
