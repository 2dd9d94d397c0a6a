"""When it does not matter where a pod goes: requests of which a NUMA node holds equally many.

With one request a NUMA node has so many slots, and any pod anywhere takes one: who is admitted, now and
later, does not depend on where pods go. So it is as long as no pod takes parts of several nodes' slots: pods
on two nodes each may leave too little on any two, and a device of two nodes is the last one of one or the
other.

With several requests it does depend: a small pod on an empty node takes a large one's slot. Decisions that
harm no pod now can still add up to refusals, as measured for several rules that looked one step ahead
(fragmentation study). So the question is whether the requests are as good as one: all name the
same number of some resource, and whatever else they name does not run out before it does, however they are
mixed. Then that resource alone counts the slots.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from numaplace.engine.options import PolicyName
from numaplace.managers.cpu.static import StaticCpuPolicy
from numaplace.managers.memory.static import StaticMemoryPolicy
from numaplace.model.mask import width
from numaplace.model.names import CPU, ResourceName
from numaplace.prediction.demand import Demand, demand_of
from numaplace.prediction.model import KubeletModel
from numaplace.prediction.preferred_masks import PreferredMasks
from numaplace.prediction.request import Request, is_compute
from numaplace.prediction.state import SteeringState
from numaplace.steering.rules.held_by_others import held_by_others

Counts = Mapping[ResourceName, int]
"""Devices, whole CPUs and bytes, of what a manager counts by NUMA node; all above 0."""


@dataclass(frozen=True, slots=True)
class _PodRequest:
    """A known request: its units of admission (``Request.units``), and what each needs."""

    request: Request
    units: tuple[Counts, ...]

    def split(self, resource: ResourceName) -> tuple[list[Counts], Counts]:
        rest: Counter[ResourceName] = Counter()
        for unit in self.units:
            if resource not in unit:
                rest.update(unit)
        return [unit for unit in self.units if resource in unit], rest


class InterchangeableRequests:
    """Compares the requests that may arrive, in one state."""

    def __init__(
        self, node: KubeletModel, state: SteeringState, preferred: PreferredMasks, requests: Sequence[Request]
    ) -> None:
        self._node = node
        self._state = state
        self._preferred = preferred
        self._allocatable: dict[tuple[ResourceName, int], int] = {}
        self._pods = [_PodRequest(one, tuple(self._units(one))) for one in dict.fromkeys(requests)]
        self._of_others: Mapping[tuple[ResourceName, int], int] | None = None

    def clash(self, demands: Sequence[Demand]) -> tuple[Request, Request] | None:
        """Return two requests that are not as good as one, of those that compete with ``demands``; else None.

        ``demands`` hang together by their resources. A request competes if it names any of them, CPUs too,
        or what a competing one names: a pod that finds no CPUs on a node takes devices of another.
        """
        ours = {name for demand in demands for name in self._counts(demand)}
        pods = self._competing(ours)
        kinds = {frozenset(unit.items()): unit for pod in pods for unit in pod.units}
        if len(kinds) == 1:
            as_one = all(map(self._takes_one_slot, kinds.values()))
        else:
            as_one = any(self._is_slot(resource, pods) for resource in sorted(ours))
        if as_one:
            return None
        by_number = sorted(pods, key=self._on_one_node)
        return by_number[-1].request, by_number[0].request

    def _competing(self, names: AbstractSet[ResourceName]) -> list[_PodRequest]:
        while True:
            pods = [pod for pod in self._pods if any(not names.isdisjoint(unit) for unit in pod.units)]
            theirs = {name for pod in pods for unit in pod.units for name in unit}
            if theirs <= names:
                return pods
            names = names | theirs

    def _units(self, request: Request) -> Iterator[Counts]:
        for unit in request.units(self._node.scope):
            counts = self._counts(demand_of(unit, self._node.scope))
            if counts:
                yield counts

    def _counts(self, demand: Demand) -> Counts:
        counts = {name: size for name, size in demand.devices if name in self._state.devices}
        if demand.cpus and isinstance(self._node.cpu, StaticCpuPolicy):
            counts[CPU] = demand.cpus
        if isinstance(self._node.memory, StaticMemoryPolicy):
            counts.update(demand.memory)
        return counts

    def _takes_one_slot(self, unit: Counts) -> bool:
        """Return whether a unit takes room for just one more of its kind, wherever it goes."""
        if sum(unit.values()) == 1:
            return True
        if not all(map(self._is_by_node, unit)):
            return False
        fits = any(
            all(size <= self._all(name, node) for name, size in unit.items())
            for node in self._node.topology.nodes
        )
        return fits or self._node.policy == PolicyName.SINGLE_NUMA_NODE

    def _is_slot(self, resource: ResourceName, pods: Sequence[_PodRequest]) -> bool:
        size = self._common_size(resource, pods)
        if not size:
            return False
        most, beside = Counter[ResourceName](), Counter[ResourceName]()
        for pod in pods:
            units, rest = pod.split(resource)
            beside |= rest
            for unit in units:
                most |= Counter(unit)
        names = most.keys() | beside.keys()
        if not all(map(self._is_by_node, names)):
            return False
        slots = {node: self._all(resource, node) // size for node in self._node.topology.nodes}
        total = sum(slots.values())
        if not total or self._leaves_a_split_pod(resource, size, slots):
            return False
        return all(
            number * most[name] + total * beside[name]
            <= (self._all if name == resource else self._left)(name, node)
            and self._free(resource, node) // size * most[name] <= self._free(name, node)
            for node, number in slots.items()
            if number
            for name in names
        )

    def _common_size(self, resource: ResourceName, pods: Sequence[_PodRequest]) -> int:
        sizes = {
            size for pod in pods for size in [unit[resource] for unit in pod.units if resource in unit] or [0]
        }
        return sizes.pop() if len(sizes) == 1 else 0

    def _is_by_node(self, resource: ResourceName) -> bool:
        if resource in self._state.devices:
            return all(width(group.mask) == 1 for group in self._state.devices[resource])
        if resource == CPU:
            return not self._shares_sockets()
        return all(self._preferred.is_open(1 << node) for node in self._node.topology.nodes)

    def _shares_sockets(self) -> bool:
        """Return whether CPUs of one NUMA node serve pods of another (``align-by-socket``)."""
        cpu = self._node.cpu
        if not isinstance(cpu, StaticCpuPolicy) or not cpu.options.align_by_socket:
            return False
        return any(len(nodes) > 1 for nodes in cpu.topology.numa_in_socket.values())

    def _leaves_a_split_pod(self, resource: ResourceName, size: int, slots: Mapping[int, int]) -> bool:
        """Return whether what no slot uses is enough for a pod, which best-effort would admit."""
        if self._node.policy != PolicyName.BEST_EFFORT:
            return False
        return sum(self._all(resource, node) - number * size for node, number in slots.items()) >= size

    def _left(self, resource: ResourceName, node: int) -> int:
        if self._of_others is None:
            known = {frozenset(unit.items()) for pod in self._pods for unit in pod.units}
            snapshot = self._state.snapshot
            self._of_others = {} if snapshot is None else held_by_others(snapshot, known, self._node.scope)
        return max(0, self._all(resource, node) - self._of_others.get((resource, node), 0))

    def _all(self, resource: ResourceName, node: int) -> int:
        key = (resource, node)
        if key not in self._allocatable:
            self._allocatable[key] = self._preferred.use(resource, 1 << node)[0]
        return self._allocatable[key]

    def _free(self, resource: ResourceName, node: int) -> int:
        if resource == CPU:
            return self._preferred.free_cpus(1 << node)
        if is_compute(resource):
            return self._preferred.free_bytes(resource, 1 << node)
        allocatable, allocated = self._preferred.use(resource, 1 << node)
        return allocatable - allocated

    def _on_one_node(self, pod: _PodRequest) -> int:
        """Return how many pods of the request the roomiest NUMA node holds when it is empty."""
        total: Counter[ResourceName] = Counter()
        for unit in pod.units:
            total.update(unit)
        return max(
            min(self._all(name, node) // size for name, size in total.items())
            for node in self._node.topology.nodes
        )
