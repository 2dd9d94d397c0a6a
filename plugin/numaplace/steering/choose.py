"""Which topology to withhold now, and what that does to every shape that may arrive.

The rule (design, "never worse"): for every shape, admitted if and only if admitted without, and aligned as
well. Of the sets that keep it, one that gives every known shape the NUMA node that the strategy wants; if
there is none, or nothing is gained, nothing is withheld and a reason is given.

Shapes that share no steerable resource are decided on apart: no set of one touches the other. Shapes that do
share one are all satisfied or none is, for half-measures work against the kubelet's own order.

That no decision harms anybody does not yet mean that all decisions together do not: with several sizes where
one goes decides what room is left for another. So steering acts where it cannot matter for admission where a
pod goes: with one shape, or with shapes of which a NUMA node holds equally many (``interchange``). Elsewhere
the kubelet's own order stays, lowest id first, which keeps the most room for large ones; ``always`` follows
the strategy all the same, at the price that KEP-6007 has too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from numaplace.engine.options import PolicyName, PolicyOptions
from numaplace.engine.weights import Weights
from numaplace.model.mask import mask_of, nodes_of
from numaplace.model.names import ResourceName, Strategy
from numaplace.steering.any_shape import AnyShape
from numaplace.steering.demand import Demand, demand_of
from numaplace.steering.dominance import Dominance
from numaplace.steering.interchange import Interchange
from numaplace.steering.node import SteeringNode
from numaplace.steering.outlook import Budget, Outlook, OutOfBudgetError
from numaplace.steering.predict import Withheld
from numaplace.steering.reasons import Reason, Refusal, ShapeOutlook, SteeringDecision
from numaplace.steering.search import NO_HEADROOM, Headroom, Search
from numaplace.steering.shape import Shape
from numaplace.steering.state import StateUnknown, SteeringState
from numaplace.steering.tables import Tables

MAX_PREDICTIONS = 2500
"""Enough for 50 shapes of 6 resources on 8 NUMA nodes; some 50 ms of work at most."""

NODES = Mapping[ResourceName, AbstractSet[int]]


@dataclass(frozen=True, slots=True)
class SteeringSettings:
    """What is wanted.

    ``strategies`` overrides ``strategy`` for single resources. ``headroom`` has to stay free on a wanted
    node. ``always`` follows the strategy also with shapes that are not interchangeable, and before any is
    known; each decision by itself is then still harmless, but not all of them together. More than
    ``max_predictions`` of work, and nothing is withheld.
    """

    strategy: Strategy = Strategy.NONE
    weights: Weights = field(default_factory=Weights)
    strategies: Mapping[ResourceName, Strategy] = field(default_factory=dict)
    headroom: Headroom = NO_HEADROOM
    always: bool = False
    max_predictions: int = MAX_PREDICTIONS

    def strategies_of(self, resources: AbstractSet[ResourceName]) -> set[Strategy]:
        """Return the strategies of the resources."""
        return {self.strategies.get(resource, self.strategy) for resource in resources}


def choose(
    node: SteeringNode,
    states: Sequence[SteeringState] | StateUnknown,
    shapes: Sequence[Shape],
    *,
    settings: SteeringSettings,
    kept: NODES | None = None,
    certain: bool = True,
    preferring: NODES | None = None,
) -> SteeringDecision:
    """Return the withheld set for the next admission. Equal arguments give equal decisions; nothing raises.

    ``states`` are those that the node may be in then, the likeliest first (``state_of``, ``completions``):
    the strategy is followed in the first one, no shape comes off worse in any. ``shapes`` are all that may
    arrive; none means that anything may. ``kept`` are NUMA nodes on which a container under admission may
    still be given devices of a resource: they stay exposed. ``certain``: no other shapes may arrive. If they
    may, and the policy refuses what it does not align, a set has to be right for any request as well. Of sets
    for known shapes that do as well, one near to ``preferring`` is taken.
    """
    off = _off(node, states, settings)
    if off is not None or isinstance(states, StateUnknown):
        return SteeringDecision(refusals=(off,) if off else ())
    steering = _Steering(
        node, states, settings, kept=kept or {}, preferring=preferring or {}, certain=certain
    )
    try:
        return steering.for_any_shape() if not shapes else steering.for_shapes(shapes)
    except OutOfBudgetError:
        what = f"more than {settings.max_predictions} predictions"
        return SteeringDecision(refusals=(Refusal(Reason.TOO_MANY, what=what),))


def _off(
    node: SteeringNode, states: Sequence[SteeringState] | StateUnknown, settings: SteeringSettings
) -> Refusal | None:
    """Return why steering is off on this node, if it is."""
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
        return Refusal(Reason.STATE_UNKNOWN, what="it is not known what the container under admission takes")
    if node.policy == PolicyName.BEST_EFFORT and any(_has_memory_group(state) for state in states):
        what = "how memory is split over several NUMA nodes is not shown, and best-effort may go by it"
        return Refusal(Reason.STATE_UNKNOWN, what=what)
    if not node.steerable & states[0].devices.keys():
        return Refusal(Reason.NOTHING_STEERABLE)
    return None


def _has_memory_group(state: SteeringState) -> bool:
    return any(len(one.cells) > 1 for one in state.memory.machine.nodes.values())


class _Steering:
    """One decision."""

    def __init__(
        self,
        node: SteeringNode,
        states: Sequence[SteeringState],
        settings: SteeringSettings,
        *,
        kept: NODES,
        preferring: NODES,
        certain: bool,
    ) -> None:
        self._node = node
        self._states = states
        self._settings = settings
        self._kept = {resource: mask_of(nodes) for resource, nodes in kept.items()}
        self._preferring = {resource: mask_of(nodes) for resource, nodes in preferring.items()}
        self._any_request = not certain and node.refuses
        self._budget = Budget(settings.max_predictions)
        self._outlooks: dict[Strategy, list[Outlook]] = {}
        self._interchange: Interchange | None = None

    def for_any_shape(self) -> SteeringDecision:
        """Decide where nothing is known of the shapes."""
        ours = self._node.steerable & self._states[0].devices.keys()
        strategy = self._strategy_of(ours)
        if isinstance(strategy, Refusal):
            return SteeringDecision(refusals=(strategy,))
        if not self._settings.always:
            return SteeringDecision(refusals=(Refusal(Reason.SHAPES_UNKNOWN, frozenset(ours)),))
        if len(self._states) > 1:
            what = "with unknown shapes it is not known what the container under admission takes"
            return SteeringDecision(refusals=(Refusal(Reason.STATE_UNKNOWN, what=what),))
        found = AnyShape(
            self._node,
            self._states[0],
            Tables(self._node, self._states[0]),
            self._strategic(strategy),
            self._kept,
            self._settings.headroom,
            self._budget,
        ).run()
        return self._decision([found], [])

    def for_shapes(self, shapes: Sequence[Shape]) -> SteeringDecision:
        """Decide for the known shapes."""
        found: list[Withheld | Refusal] = []
        searched: list[tuple[Outlook, Sequence[Demand]]] = []
        withheld: Withheld = {}
        components = list(self._components(shapes))
        for resources, demands in components:
            strategy = self._strategy_of(resources)
            if isinstance(strategy, Refusal):
                found.append(strategy)
                continue
            outlooks = self._outlooks_for(strategy)
            clash = None if self._settings.always else self._clash(outlooks[0], shapes, demands)
            if clash is not None:
                found.append(Refusal(Reason.SEVERAL_SIZES, resources, shape=clash[0], other=clash[1]))
                continue
            search = Search(
                self._node,
                demands,
                outlook=outlooks[0],
                others=outlooks[1:],
                kept=self._kept,
                headroom=self._settings.headroom,
                preferring=self._preferring,
            )
            set_ = search.run()
            if not isinstance(set_, Refusal):
                together = {**withheld, **set_}
                if self._may_be_wrong(together, outlooks):
                    set_ = Refusal(Reason.OTHERS_MAY_COME, search.resources)
                else:
                    withheld = together
            found.append(set_)
            searched.append((outlooks[0], demands))
        if not components:
            found.append(Refusal(Reason.NOTHING_STEERABLE))
        return self._decision(found, searched)

    def _may_be_wrong(self, withheld: Withheld, outlooks: Sequence[Outlook]) -> bool:
        """Return whether a request of a shape that is not known could come off worse."""
        if not self._any_request:
            return False
        nodes = [Dominance(self._node, one.state, one.tables) for one in outlooks]
        return not all(one.may_span() is None and one.right_for_any(withheld) for one in nodes)

    def _clash(
        self, outlook: Outlook, shapes: Sequence[Shape], demands: Sequence[Demand]
    ) -> tuple[Shape, Shape] | None:
        if self._interchange is None:
            self._interchange = Interchange(self._node, outlook.state, outlook.tables, shapes)
        return self._interchange.clash(demands)

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

    def _outlooks_for(self, strategy: Strategy) -> list[Outlook]:
        if strategy not in self._outlooks:
            options = self._strategic(strategy)
            self._outlooks[strategy] = [
                Outlook(self._node, state, strategic=options, budget=self._budget) for state in self._states
            ]
        return self._outlooks[strategy]

    def _components(
        self, shapes: Sequence[Shape]
    ) -> Iterator[tuple[frozenset[ResourceName], Sequence[Demand]]]:
        """Yield the shapes that hang together by steerable resources, with those resources."""
        ours = self._node.steerable & self._states[0].devices.keys()
        scope = self._node.scope
        units = dict.fromkeys(unit for shape in shapes for unit in shape.units(scope))
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
        self, found: Sequence[Withheld | Refusal], searched: Sequence[tuple[Outlook, Sequence[Demand]]]
    ) -> SteeringDecision:
        masks: dict[ResourceName, int] = {}
        for one in found:
            if not isinstance(one, Refusal):
                masks.update(one)
        return SteeringDecision(
            withheld={resource: frozenset(nodes_of(masks[resource])) for resource in sorted(masks)},
            refusals=tuple(one for one in found if isinstance(one, Refusal)),
            shapes=tuple(
                _told(outlook, demand, masks) for outlook, demands in searched for demand in demands
            ),
        )


def _told(outlook: Outlook, demand: Demand, withheld: Withheld) -> ShapeOutlook:
    stock, wanted = outlook.outcome(demand), outlook.wanted(demand)
    differing = () if stock.mask == wanted.mask else (wanted.mask, stock.mask)
    return ShapeOutlook(
        demand.shape,
        stock=stock,
        wanted=wanted,
        steered=outlook.outcome(demand, withheld),
        scores={mask: score for mask in differing if mask and (score := outlook.score(demand, mask))},
    )
