"""The withheld set for known requests that share resources: every one gets the node that the strategy wants.

Which (resource, NUMA node) pairs may be withheld follows from the requests: a resource has to stay exposed
where one of its requests should go. So sets are not enumerated. Starting from nothing, as long as the kubelet
would take some request elsewhere, one of the nodes that it would take is withheld, for one of the request's
resources that no request should have there. Each step withholds one more pair, so at most resources x nodes
steps are made, and each checks only requests for the pair's resource again. If none may be withheld, no set
does.

Why no set with more exposed is missed: a stock pick is the first of the masks that all resources prefer, and
withholding elsewhere only takes masks away. Where withholding makes wider masks preferred, the outcome may be
harmful all the same; then everything that no request should have is withheld, and if that is harmful too,
nothing is.

In the end what is not needed is exposed again, so that no smaller set does (smaller: a subset).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from numaplace.managers.cpu.static import StaticCpuPolicy
from numaplace.managers.memory.static import StaticMemoryPolicy
from numaplace.model.mask import nodes_of
from numaplace.model.names import MEMORY, ResourceName
from numaplace.prediction.demand import Demand
from numaplace.prediction.forecast import Forecast
from numaplace.prediction.model import KubeletModel
from numaplace.prediction.predict import NOTHING_WITHHELD, Withheld
from numaplace.steering.decision import Reason, Refusal

Pair = tuple[ResourceName, int]
"""A resource and the bit of a NUMA node."""


@dataclass(frozen=True, slots=True)
class Headroom:
    """What has to stay free on a wanted NUMA node beside the request: whole CPUs, bytes of ``memory``."""

    cpus: int = 0
    memory_bytes: int = 0


NO_HEADROOM = Headroom()


class Search:
    """One search over requests that hang together by their resources.

    ``forecast`` is the present state's; ``others`` are those of states that the node may be in as well: no
    request may be harmed there. ``kept`` are nodes that have to stay exposed. Pairs
    of ``preferring`` are withheld before others: a list that does not change need not be sent.
    """

    def __init__(
        self,
        node: KubeletModel,
        demands: Sequence[Demand],
        *,
        forecast: Forecast,
        others: Sequence[Forecast],
        kept: Withheld,
        headroom: Headroom,
        preferring: Withheld = NOTHING_WITHHELD,
    ) -> None:
        self._node = node
        self._demands = demands
        self._forecast = forecast
        self._others = others
        self._kept = kept
        self._preferring = preferring
        self._headroom = headroom
        self._steered = {
            demand: tuple(
                one for one, _ in demand.devices if one in node.steerable and one in forecast.state.devices
            )
            for demand in demands
        }
        self._resources = sorted({one for found in self._steered.values() for one in found})
        forecast.check_budget(demands)
        self._wanted = {demand: forecast.wanted(demand) for demand in demands}
        self._open = dict.fromkeys(self._resources, 0)
        self._uses: Counter[ResourceName] = Counter()
        for demand in demands:
            for resource in self._steered[demand]:
                self._uses[resource] += 1
                self._open[resource] |= self._wanted[demand].mask or 0

    @property
    def resources(self) -> frozenset[ResourceName]:
        return frozenset(self._resources)

    def run(self) -> Withheld | Refusal:
        if all(self._follows(demand, NOTHING_WITHHELD) for demand in self._demands):
            return self._refusal(Reason.NOTHING_TO_GAIN)
        found = self._grown()
        if isinstance(found, Refusal):
            return found
        problem = self._problem(found, self._demands)
        if problem is not None:
            found = self._all_unwanted()
            if self._problem(found, self._demands) is not None:
                return problem
        found = self._reduced(found)
        return self._too_tight(found) or found

    def _grown(self) -> dict[ResourceName, int] | Refusal:
        withheld: dict[ResourceName, int] = {}
        while True:
            stray = next((one for one in self._demands if not self._follows(one, withheld)), None)
            if stray is None:
                return withheld
            taken = self._forecast.outcome(stray, withheld).mask
            if taken is None:
                return self._all_unwanted()
            pair = self._pair_against(stray, taken, withheld)
            if pair is None:
                return self._conflict(stray, taken)
            withheld[pair[0]] = withheld.get(pair[0], 0) | pair[1]

    def _pair_against(self, demand: Demand, taken: int, withheld: Withheld) -> Pair | None:
        """Return a pair that takes ``taken`` from the request: preferred, or of what most of them need."""
        found = [
            (resource, taken & self._spare(resource) & ~withheld.get(resource, 0))
            for resource in sorted(self._steered[demand], key=lambda one: (-self._uses[one], one))
        ]
        for among in (self._preferring, None):
            for resource, nodes in found:
                nodes &= -1 if among is None else among.get(resource, 0)
                if nodes:
                    return resource, nodes & -nodes
        return None

    def _spare(self, resource: ResourceName) -> int:
        free = self._forecast.preferred.free_nodes(resource)
        return free & ~self._open[resource] & ~self._kept.get(resource, 0)

    def _all_unwanted(self) -> dict[ResourceName, int]:
        spare = {resource: self._spare(resource) for resource in self._resources}
        return {resource: nodes for resource, nodes in spare.items() if nodes}

    def _follows(self, demand: Demand, withheld: Withheld) -> bool:
        wanted = self._wanted[demand]
        outcome = self._forecast.outcome(demand, withheld)
        return not wanted.admitted or outcome.mask == wanted.mask

    def _problem(self, withheld: Withheld, demands: Sequence[Demand]) -> Refusal | None:
        for demand in demands:
            if not self._follows(demand, withheld):
                return self._refusal(Reason.CONFLICT, request=demand)
            for forecast in (self._forecast, *self._others):
                worse = forecast.worse(demand, withheld)
                if worse is not None:
                    return Refusal(Reason.UNSAFE, self.resources, request=demand.request, harm=worse)
        return None

    def _reduced(self, withheld: dict[ResourceName, int]) -> dict[ResourceName, int]:
        """Expose again what is not needed, high nodes first: the kubelet prefers low ones by itself."""
        pairs = sorted(_pairs(withheld), key=lambda pair: (self._is_preferred(pair), -pair[1], pair[0]))
        for resource, bit in pairs:
            less = {**withheld, resource: withheld[resource] & ~bit}
            if not less[resource]:
                del less[resource]
            concerned = [one for one in self._demands if resource in self._steered[one]]
            if self._problem(less, concerned) is None:
                withheld = less
        return withheld

    def _is_preferred(self, pair: Pair) -> bool:
        return bool(self._preferring.get(pair[0], 0) & pair[1])

    def _too_tight(self, withheld: Withheld) -> Refusal | None:
        for demand in self._demands:
            mask = self._wanted[demand].mask
            touched = any(resource in withheld for resource in self._steered[demand])
            if not touched or mask is None:
                continue
            if mask & self._forecast.state.unsettled:
                return self._refusal(Reason.UNDER_ADMISSION, request=demand)
            if not self._has_headroom(demand, mask):
                return Refusal(Reason.HEADROOM, self.resources, request=demand.request, mask=mask)
        return None

    def _has_headroom(self, demand: Demand, mask: int) -> bool:
        preferred, headroom = self._forecast.preferred, self._headroom
        exclusive = demand.cpus if isinstance(self._node.cpu, StaticCpuPolicy) else 0
        if exclusive and preferred.free_cpus(mask) < exclusive + headroom.cpus:
            return False
        if not demand.memory or not isinstance(self._node.memory, StaticMemoryPolicy):
            return True
        free = preferred.free_bytes(MEMORY, mask)
        return free >= dict(demand.memory).get(MEMORY, 0) + headroom.memory_bytes

    def _conflict(self, demand: Demand, taken: int) -> Refusal:
        """Name the request that should have what this one would get, or the admission in progress."""
        steered = self._steered[demand]
        if any(taken & self._kept.get(resource, 0) & ~self._open[resource] for resource in steered):
            return self._refusal(Reason.UNDER_ADMISSION, request=demand)
        for other in self._demands:
            shared = other is not demand and set(self._steered[other]) & set(steered)
            if shared and (self._wanted[other].mask or 0) & taken:
                return Refusal(Reason.CONFLICT, self.resources, request=demand.request, other=other.request)
        return self._refusal(Reason.CONFLICT, request=demand)

    def _refusal(self, reason: Reason, *, request: Demand | None = None) -> Refusal:
        return Refusal(reason, self.resources, request=None if request is None else request.request)


def _pairs(withheld: Mapping[ResourceName, int]) -> Iterator[Pair]:
    for resource, mask in withheld.items():
        for node in nodes_of(mask):
            yield resource, 1 << node
