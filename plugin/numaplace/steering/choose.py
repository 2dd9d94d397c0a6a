"""Which topology to withhold now, and what that does to every request that may arrive.

The rule (design, "never worse"): for every request, admitted if and only if admitted without, and aligned as
well. Of the sets that keep it, one that gives every known request the NUMA node that the strategy wants; if
there is none, or nothing is gained, nothing is withheld and a reason is given.

Requests that share no steerable resource are decided on apart: no set of one touches the other. Requests that
do share one are all satisfied or none is, for half-measures work against the kubelet's own order.

Decisions that harm no pod each may harm one together: with several sizes, where one goes decides what room is
left for another. So steering acts where it cannot matter for admission where a pod goes: with one request, or
with requests that are interchangeable: a NUMA node holds equally many of each. Elsewhere the kubelet's own
order stays, lowest id first, which keeps the most room for large ones; ``always`` follows the strategy all
the same, at the price that KEP-6007 has too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from numaplace.engine.options import PolicyName, PolicyOptions
from numaplace.engine.weights import Weights
from numaplace.model.names import ResourceName, Strategy
from numaplace.prediction.demand import Demand, demand_of
from numaplace.prediction.forecast import Budget, Forecast, OutOfBudgetError
from numaplace.prediction.model import KubeletModel
from numaplace.prediction.predict import NOTHING_WITHHELD, Withheld
from numaplace.prediction.request import Request
from numaplace.prediction.state import StateUnknown, SteeringState
from numaplace.steering.decision import Reason, Refusal, RequestForecast, SteeringDecision
from numaplace.steering.rules.dominance import right_for_any
from numaplace.steering.rules.interchangeable import InterchangeableRequests
from numaplace.steering.search import NO_HEADROOM, Headroom, Search

MAX_PREDICTIONS = 2500
"""Enough for 50 requests of 6 resources on 8 NUMA nodes; some 50 ms of work at most."""


@dataclass(frozen=True, slots=True)
class SteeringSettings:
    """What to aim for.

    ``strategies`` overrides ``strategy`` for single resources. ``headroom`` has to stay free on a wanted
    node. ``always`` follows the strategy also with requests that are not interchangeable; each decision by
    itself is then still harmless, but not all of them together. More than ``max_predictions`` of work, and
    nothing is withheld.
    """

    strategy: Strategy = Strategy.NONE
    weights: Weights = field(default_factory=Weights)
    strategies: Mapping[ResourceName, Strategy] = field(default_factory=dict)
    headroom: Headroom = NO_HEADROOM
    always: bool = False
    max_predictions: int = MAX_PREDICTIONS

    def strategies_of(self, resources: AbstractSet[ResourceName]) -> set[Strategy]:
        return {self.strategies.get(resource, self.strategy) for resource in resources}


def choose(
    node: KubeletModel,
    states: Sequence[SteeringState] | StateUnknown,
    requests: Sequence[Request],
    *,
    settings: SteeringSettings,
    kept: Withheld = NOTHING_WITHHELD,
    certain: bool = True,
    preferring: Withheld = NOTHING_WITHHELD,
) -> SteeringDecision:
    """Return the withheld set for the next admission. Equal arguments give equal decisions; nothing raises.

    ``states`` are those that the node may be in then, the likeliest first (``state_of``, ``next_states``):
    the strategy is followed in the first one, no request is harmed in any. ``requests`` are all that
    may arrive; without any nothing is withheld. ``kept`` are NUMA nodes on which a container under admission
    may still be given devices of a resource: they stay exposed. ``certain``: no other requests may arrive. If
    they may, and the policy refuses what it does not align, a set has to be right for any request as well. Of
    sets for known requests that do as well, one near to ``preferring`` is taken.
    """
    off = _off(node, states, requests, settings)
    if off is not None or isinstance(states, StateUnknown):
        return SteeringDecision(refusals=(off,) if off else ())
    steering = _Steering(node, states, settings, kept=kept, preferring=preferring, certain=certain)
    try:
        return steering.for_requests(requests)
    except OutOfBudgetError:
        what = f"more than {settings.max_predictions} predictions"
        return SteeringDecision(refusals=(Refusal(Reason.TOO_MANY, what=what),))


def _off(
    node: KubeletModel,
    states: Sequence[SteeringState] | StateUnknown,
    requests: Sequence[Request],
    settings: SteeringSettings,
) -> Refusal | None:
    if settings.strategies_of(node.steerable) <= {Strategy.NONE}:
        return Refusal(Reason.NO_STRATEGY)
    if len(node.topology.nodes) < 2:
        return Refusal(Reason.ONE_NODE)
    if node.policy == PolicyName.NONE:
        return Refusal(Reason.POLICY_NONE)
    if node.policy is None or node.cpu is None or node.memory is None:
        unknown = {"Topology Manager": node.policy, "CPU Manager": node.cpu, "Memory Manager": node.memory}
        names = ", ".join(name for name, known in unknown.items() if known is None)
        return Refusal(Reason.POLICY_UNKNOWN, what=node.problem or f"the policy of the {names} is not known")
    if node.options.strategy is not Strategy.NONE:
        return Refusal(Reason.KUBELET_STRATEGY)
    if isinstance(states, StateUnknown):
        return Refusal(Reason.STATE_UNKNOWN, what=states.what)
    if not states:
        return Refusal(
            Reason.STATE_UNKNOWN, what="it is not known what the container under admission will be allocated"
        )
    if node.policy == PolicyName.BEST_EFFORT and any(_has_memory_group(state) for state in states):
        what = "how memory is split over several NUMA nodes is not shown, and best-effort may depend on it"
        return Refusal(Reason.STATE_UNKNOWN, what=what)
    if not node.steerable & states[0].devices.keys():
        return Refusal(Reason.NOTHING_STEERABLE)
    return None if requests else Refusal(Reason.REQUESTS_UNKNOWN)


def _has_memory_group(state: SteeringState) -> bool:
    return any(len(one.cells) > 1 for one in state.memory.machine.nodes.values())


class _Steering:
    """One decision."""

    def __init__(
        self,
        node: KubeletModel,
        states: Sequence[SteeringState],
        settings: SteeringSettings,
        *,
        kept: Withheld,
        preferring: Withheld,
        certain: bool,
    ) -> None:
        self._node = node
        self._states = states
        self._settings = settings
        self._kept = kept
        self._preferring = preferring
        self._any_request = not certain and node.refuses
        self._budget = Budget(settings.max_predictions)
        self._forecasts: dict[Strategy, list[Forecast]] = {}
        self._interchangeable: InterchangeableRequests | None = None

    def for_requests(self, requests: Sequence[Request]) -> SteeringDecision:
        found: list[Withheld | Refusal] = []
        searched: list[tuple[Forecast, Sequence[Demand]]] = []
        withheld: Withheld = {}
        components = list(self._components(requests))
        for resources, demands in components:
            strategy = self._strategy_of(resources)
            if isinstance(strategy, Refusal):
                found.append(strategy)
                continue
            forecasts = self._forecasts_for(strategy)
            clash = None if self._settings.always else self._clash(forecasts[0], requests, demands)
            if clash is not None:
                found.append(Refusal(Reason.SEVERAL_SIZES, resources, request=clash[0], other=clash[1]))
                continue
            search = Search(
                self._node,
                demands,
                forecast=forecasts[0],
                others=forecasts[1:],
                kept=self._kept,
                headroom=self._settings.headroom,
                preferring=self._preferring,
            )
            set_ = search.run()
            if not isinstance(set_, Refusal):
                together = {**withheld, **set_}
                if self._may_be_wrong(together, forecasts):
                    set_ = Refusal(Reason.OTHERS_MAY_COME, search.resources)
                else:
                    withheld = together
            found.append(set_)
            searched.append((forecasts[0], demands))
        if not components:
            found.append(Refusal(Reason.NOTHING_STEERABLE))
        return self._decision(found, searched)

    def _may_be_wrong(self, withheld: Withheld, forecasts: Sequence[Forecast]) -> bool:
        return self._any_request and not all(
            right_for_any(self._node, one.state, one.preferred, withheld) for one in forecasts
        )

    def _clash(
        self, forecast: Forecast, requests: Sequence[Request], demands: Sequence[Demand]
    ) -> tuple[Request, Request] | None:
        if self._interchangeable is None:
            state, preferred = forecast.state, forecast.preferred
            self._interchangeable = InterchangeableRequests(self._node, state, preferred, requests)
        return self._interchangeable.clash(demands)

    def _strategy_of(self, resources: AbstractSet[ResourceName]) -> Strategy | Refusal:
        strategies = self._settings.strategies_of(resources)
        concerned = frozenset(resources)
        if len(strategies) != 1:
            return Refusal(Reason.MIXED_STRATEGIES, concerned)
        (strategy,) = strategies
        if strategy is Strategy.NONE:
            return Refusal(Reason.NO_STRATEGY, concerned)
        return strategy

    def _strategic(self, strategy: Strategy) -> PolicyOptions:
        return replace(self._node.options, strategy=strategy, weights=self._settings.weights)

    def _forecasts_for(self, strategy: Strategy) -> list[Forecast]:
        if strategy not in self._forecasts:
            options = self._strategic(strategy)
            self._forecasts[strategy] = [
                Forecast(self._node, state, strategic=options, budget=self._budget) for state in self._states
            ]
        return self._forecasts[strategy]

    def _components(
        self, requests: Sequence[Request]
    ) -> Iterator[tuple[frozenset[ResourceName], Sequence[Demand]]]:
        ours = self._node.steerable & self._states[0].devices.keys()
        scope = self._node.scope
        units = dict.fromkeys(unit for request in requests for unit in request.units(scope))
        groups: list[tuple[set[ResourceName], list[Demand]]] = []
        for unit in units:
            demand = demand_of(unit, scope)
            resources = {resource for resource, _ in demand.devices if resource in ours}
            if not resources:
                continue
            joined = [group for group in groups if group[0] & resources]
            groups = [group for group in groups if not group[0] & resources]
            demands = [one for _, of_group in joined for one in of_group]
            groups.append((resources.union(*(names for names, _ in joined)), [*demands, demand]))
        for names, demands in groups:
            yield frozenset(names), demands

    def _decision(
        self, found: Sequence[Withheld | Refusal], searched: Sequence[tuple[Forecast, Sequence[Demand]]]
    ) -> SteeringDecision:
        masks: dict[ResourceName, int] = {}
        for one in found:
            if not isinstance(one, Refusal):
                masks.update(one)
        return SteeringDecision(
            withheld={resource: masks[resource] for resource in sorted(masks)},
            refusals=tuple(one for one in found if isinstance(one, Refusal)),
            requests=tuple(
                _told(forecast, demand, masks) for forecast, demands in searched for demand in demands
            ),
        )


def _told(forecast: Forecast, demand: Demand, withheld: Withheld) -> RequestForecast:
    stock, wanted = forecast.outcome(demand), forecast.wanted(demand)
    differing = () if stock.mask == wanted.mask else (wanted.mask, stock.mask)
    return RequestForecast(
        demand.request,
        stock=stock,
        wanted=wanted,
        steered=forecast.outcome(demand, withheld),
        scores={mask: score for mask in differing if mask and (score := forecast.score(demand, mask))},
    )
