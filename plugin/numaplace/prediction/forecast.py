"""The outcome of each request in one state under any withheld set: the fast way to ``predict``'s answers.

CPUs and memory do not depend on what is withheld, so their part is worked out once per request. A merged hint
that all resources prefer is found from the preferred masks alone. The plain prediction is
needed only where there is none and the policy admits all the same (``best-effort``), where no nodes have the
memory of a whole pod (its containers are then placed one by one), and with ``align-by-socket``, whose
preferred masks differ in width. It is charged to the budget by its cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from numaplace.engine.compare import Criteria, compare, criteria_for
from numaplace.engine.hint import Hint
from numaplace.engine.options import PolicyName, PolicyOptions
from numaplace.engine.score import weighted_mean
from numaplace.errors import AllocationError
from numaplace.managers.admission import NO_AFFINITY, TOPOLOGY_AFFINITY_ERROR, UNEXPECTED_ADMISSION_ERROR
from numaplace.managers.cpu.static import StaticCpuPolicy
from numaplace.model.mask import width
from numaplace.model.names import CPU, ResourceName, Strategy
from numaplace.prediction.demand import Demand
from numaplace.prediction.harm import Harm, Prediction, harm
from numaplace.prediction.model import KubeletModel
from numaplace.prediction.predict import NOTHING_WITHHELD, Withheld, predict
from numaplace.prediction.preferred_masks import Offer, PreferredMasks
from numaplace.prediction.state import SteeringState

PLAIN_COST = 120
PLAIN_MASK_PAIRS_PER_PREDICTION = 40
"""What a plain prediction costs in fast ones of 20 µs (measured): its managers, and the merge, which
grows with the square of the number of masks, for each resource. On 8 NUMA nodes that is beyond the default
budget."""

ALLOCATION_COST = 15
"""What it costs to take a container's CPUs as the CPU manager does."""


class OutOfBudgetError(Exception):
    """More predictions were needed than allowed."""


class Budget:
    """Counts predictions down from ``limit``."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.spent = 0

    def spend(self, cost: int) -> None:
        self.demand(cost)
        self.spent += cost

    def demand(self, cost: int) -> None:
        """Raise ``OutOfBudgetError`` if ``cost`` more would be beyond the limit."""
        if self.spent + cost > self.limit:
            raise OutOfBudgetError


REFUSED = Prediction(admitted=False, reason=TOPOLOGY_AFFINITY_ERROR)
NEVER = Prediction(admitted=False, reason=UNEXPECTED_ADMISSION_ERROR)


class Forecast:
    """The predictions for one state; ``options`` are the kubelet's own, ``strategic`` those of the KEP's."""

    def __init__(
        self, node: KubeletModel, state: SteeringState, *, strategic: PolicyOptions, budget: Budget
    ) -> None:
        self.state = state
        self.preferred = PreferredMasks(node, state)
        self._node = node
        self._strategic = strategic
        self._budget = budget
        self._masks = (1 << len(node.topology.nodes)) - 1
        self._single = node.policy == PolicyName.SINGLE_NUMA_NODE
        self._static = node.cpu if isinstance(node.cpu, StaticCpuPolicy) else None
        self._by_socket = self._static is not None and self._static.options.align_by_socket
        self._stock = self._criteria(node.options)
        self._scored = self._criteria(strategic)
        self._fixed: dict[Demand, Offer] = {}
        self._never: dict[Demand, bool] = {}
        self._full: dict[Demand, Mapping[ResourceName, int]] = {}
        self._found: dict[tuple[Demand, tuple[int, ...]], Prediction] = {}
        self._wanted: dict[Demand, Prediction] = {}

    def outcome(self, demand: Demand, withheld: Withheld = NOTHING_WITHHELD) -> Prediction:
        """Return what the stock kubelet does with the request."""
        key = (demand, tuple([withheld.get(resource, 0) for resource, _ in demand.devices]))
        found = self._found.get(key)
        if found is None:
            self._budget.spend(1)
            found = self._found[key] = self._predict(
                demand, withheld, criteria=self._stock, options=self._node.options
            )
        return found

    def worse(self, demand: Demand, withheld: Withheld) -> Harm | None:
        """Return how a set harms the request, on a kubelet before 1.36 as well; ``None`` if it does not.

        Those make other device hints: the preferred ones are the same, others may differ.
        """
        found = harm(self.outcome(demand, withheld), instead_of=self.outcome(demand))
        if found is not None or self._node.policy != PolicyName.BEST_EFFORT:
            return found
        touched = any(withheld.get(resource, 0) for resource, _ in demand.devices)
        if not touched or not any(self._is_plain(demand, one) for one in (withheld, NOTHING_WITHHELD)):
            return None
        node = replace(self._node, hints_over_all_nodes=True)
        self._budget.spend(2 * self._plain_cost(demand))
        before = predict(node, self.state, demand.request)
        return harm(predict(node, self.state, demand.request, withheld=withheld), instead_of=before)

    def wanted(self, demand: Demand) -> Prediction:
        """Return what a kubelet that knows the strategy does with the request (KEP-6007)."""
        found = self._wanted.get(demand)
        if found is None:
            self._budget.spend(1)
            found = self._wanted[demand] = self._predict(
                demand, NOTHING_WITHHELD, criteria=self._scored, options=self._strategic
            )
        return found

    def score(self, demand: Demand, mask: int) -> int:
        return self._score(demand, mask, self._scored)

    def check_budget(self, demands: Iterable[Demand]) -> None:
        """Raise ``OutOfBudgetError`` at once where what the requests need at least goes beyond the budget.

        That is a plain prediction without and one with the strategy, for each that needs them.
        """
        plain = [demand for demand in demands if self._is_plain(demand, NOTHING_WITHHELD)]
        self._budget.demand(2 * sum(map(self._plain_cost, plain)))

    def _plain_cost(self, demand: Demand) -> int:
        resources = len(demand.devices) + len(demand.memory) + bool(demand.cpus)
        return PLAIN_COST + resources * self._masks**2 // PLAIN_MASK_PAIRS_PER_PREDICTION

    def _is_plain(self, demand: Demand, withheld: Withheld) -> bool:
        if self._never_fits(demand):
            return False
        if self._by_socket or not self.preferred.holds_memory(demand.memory):
            return True
        masks, _ = self._common(demand, withheld)
        return masks is not None and not masks and self._node.policy == PolicyName.BEST_EFFORT

    def _criteria(self, options: PolicyOptions) -> Criteria:
        return criteria_for(
            self._node.topology, self._node.policy or "", options=options, best_non_preferred=0
        )

    def _predict(
        self, demand: Demand, withheld: Withheld, *, criteria: Criteria, options: PolicyOptions
    ) -> Prediction:
        if self._never_fits(demand):
            return NEVER
        if self._by_socket or not self.preferred.holds_memory(demand.memory):
            return self._plain(demand, withheld, options)
        masks, loose = self._common(demand, withheld)
        everywhere = self._node.topology.mask
        if masks is None:
            return Prediction(admitted=True, mask=None if self._single else everywhere, preferred=True)
        if not masks:
            if self._node.policy == PolicyName.BEST_EFFORT:
                return self._plain(demand, withheld, options)
            return REFUSED
        mask = self._best(demand, masks, criteria)
        if self._single and mask == everywhere:
            return Prediction(admitted=True, preferred=True)
        full = self._full_amounts(demand)
        if loose:
            full = {resource: amount for resource, amount in full.items() if resource not in loose}
        return Prediction(admitted=True, mask=mask, preferred=True, aligned=full)

    def _common(self, demand: Demand, withheld: Withheld) -> tuple[Offer, list[ResourceName]]:
        """Return the masks that all resources prefer, and the device resources without topology."""
        common = self._fixed_offer(demand)
        loose = []
        for resource, size in demand.devices:
            if resource not in self.state.devices:
                continue
            offer = self.preferred.devices(resource, size, hidden=withheld.get(resource, 0))
            if offer is None:
                loose.append(resource)
            else:
                common = offer if common is None else common & offer
        if self._single and common:
            common = frozenset(mask for mask in common if width(mask) == 1)
        return common, loose

    def _fixed_offer(self, demand: Demand) -> Offer:
        if demand not in self._fixed:
            cpus, memory = self.preferred.cpus(demand.cpus), self.preferred.memory(demand.memory)
            self._fixed[demand] = memory if cpus is None else cpus if memory is None else cpus & memory
        return self._fixed[demand]

    def _never_fits(self, demand: Demand) -> bool:
        """Return whether no mask helps: the node lacks what is requested, or SMT alignment forbids it."""
        if demand not in self._never:
            self._never[demand] = self._lacks(demand)
        return self._never[demand]

    def _lacks(self, demand: Demand) -> bool:
        devices = self.state.devices
        if any(self.preferred.free_devices(one) < size for one, size in demand.devices if one in devices):
            return True
        # Each container of a pod may still find memory by itself: hints do not show that.
        if len(demand.request.containers) == 1 and not self.preferred.holds_memory(demand.memory):
            return True
        if self._static is None or not demand.cpus:
            return False
        if self.preferred.free_cpus() < demand.cpus:
            return True
        return self._static.options.full_pcpus_only and self._smt_refuses(self._static, demand)

    def _smt_refuses(self, policy: StaticCpuPolicy, demand: Demand) -> bool:
        pod, state = demand.request.pod(), self.state.cpu
        try:
            if len(pod.containers) == 1 and not policy.options.distribute_across_numa:
                # Enough are free: packed, they are found.
                policy.check_smt_alignment(state, demand.cpus)
                return False
            self._budget.spend(ALLOCATION_COST * len(pod.containers))
            for container in pod.containers:
                state = policy.allocate(state, pod, container, NO_AFFINITY)
        except AllocationError:
            return True
        return False

    def _best(self, demand: Demand, masks: Iterable[int], criteria: Criteria) -> int:
        rising = sorted(masks)
        if len(rising) == 1 or (criteria.strategy is Strategy.NONE and criteria.distance is None):
            return rising[0]
        best: Hint | None = None
        for mask in rising:
            hint = Hint(mask, preferred=True, score=self._score(demand, mask, criteria))
            if compare(best, hint, criteria).candidate_wins:
                best = hint
        return best.mask or 0 if best else 0

    def _score(self, demand: Demand, mask: int, criteria: Criteria) -> int:
        if criteria.strategy is Strategy.NONE:
            return 0
        weight_of = self._strategic.weights.of
        names = [
            name
            for name, size in demand.devices
            if name in self.state.devices and self.preferred.devices(name, size) is not None
        ]
        if self.preferred.cpus(demand.cpus) is not None:
            names.append(CPU)
        if self.preferred.memory(demand.memory) is not None:
            names.extend(type_ for type_, _ in demand.memory)
        scores = [(self.preferred.score(name, mask), weight_of(name)) for name in names]
        return weighted_mean([pair for pair in scores if pair[0] > 0])

    def _full_amounts(self, demand: Demand) -> Mapping[ResourceName, int]:
        full = self._full.get(demand)
        if full is None:
            amounts = {name: size for name, size in demand.devices if name in self.state.devices}
            if self._static is not None and demand.cpus:
                amounts[CPU] = demand.cpus
            if self.preferred.memory(demand.memory) is not None:
                amounts.update(demand.memory)
            full = self._full[demand] = dict(sorted(amounts.items()))
        return full

    def _plain(self, demand: Demand, withheld: Withheld, options: PolicyOptions) -> Prediction:
        if self._node.policy == PolicyName.BEST_EFFORT:
            # A set that leads here takes two more (``worse``): what cannot be finished is not started.
            self._budget.demand(3 * self._plain_cost(demand))
        self._budget.spend(self._plain_cost(demand))
        return predict(self._node, self.state, demand.request, withheld=withheld, options=options)
