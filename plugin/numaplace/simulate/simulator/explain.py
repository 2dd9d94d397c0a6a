"""Why a pod landed where it did, or why not: every NUMA node set with each resource's hint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from numaplace.engine.compare import Criteria, Rule, compare, criteria_for
from numaplace.engine.hint import Hint
from numaplace.engine.merge import filter_providers_hints, max_of_min_affinity_counts
from numaplace.engine.options import PolicyName, PolicyOptions
from numaplace.engine.policy import single_node_hints
from numaplace.errors import InputError
from numaplace.managers.admission import Decision, Scope
from numaplace.managers.cpu.static import exclusive_cpus, pod_exclusive_cpus
from numaplace.managers.memory.requests import container_requests, pod_requests
from numaplace.managers.pod import Pod
from numaplace.model.mask import nodes_of, width
from numaplace.model.names import CPU, Amounts, ResourceName
from numaplace.prediction.predict import Withheld
from numaplace.simulate.scenario.records import Create, Enforcement, Scenario
from numaplace.simulate.simulator.enforcement import plugin_options
from numaplace.simulate.simulator.results import Created, NodeUse
from numaplace.simulate.simulator.run import Simulator


@dataclass(frozen=True, slots=True)
class Lack:
    """A resource of which a NUMA node set has too little ``free``. In CPUs, bytes or devices."""

    resource: ResourceName
    free: int
    needed: int


@dataclass(frozen=True, slots=True)
class MaskView:
    """One NUMA node set in one decision.

    ``hints`` holds each resource's hint for exactly this set; a resource that is not in it does not offer
    the set, and is in ``vetoes`` unless it has no preference. Of ``withheld`` resources the plugin shows no
    topology of free devices there. ``merged`` is the set as a candidate, None if the
    policy did not get to compare it; ``lost_by`` is the rule by which the chosen candidate beats it.
    """

    mask: int
    hints: Mapping[ResourceName, Hint]
    vetoes: tuple[ResourceName, ...]
    lacks: tuple[Lack, ...]
    merged: Hint | None = None
    chosen: bool = False
    lost_by: Rule | None = None
    withheld: frozenset[ResourceName] = frozenset()


@dataclass(frozen=True, slots=True)
class DecisionView:
    """One decision of the Topology Manager, for a container, or for the whole pod (``container`` is empty).

    ``needs`` are the amounts asked for of the resources with hints, ``indifferent`` those that any
    NUMA node suits. ``masks`` are single NUMA nodes and all sets that some resource offers or that competed,
    narrow ones first.
    """

    container: str
    needs: Amounts
    indifferent: tuple[ResourceName, ...]
    masks: tuple[MaskView, ...]
    hint: Hint
    admitted: bool
    rule: Rule
    structural: int | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """A pod's admission and all that led to it.

    ``options`` are the Topology Manager's, ``plugin`` the plugin's, None if it does not decide.
    """

    created: Created
    pod: Pod
    policy: PolicyName
    scope: Scope
    enforcement: Enforcement
    options: PolicyOptions
    plugin: PolicyOptions | None = None
    decisions: tuple[DecisionView, ...] = field(default_factory=tuple)


def explain(scenario: Scenario, pod: str | None = None) -> Explanation:
    """Run a scenario up to the last pod, or the last one of that name, and explain its admission.

    Raises ``ScenarioError``, and ``InputError`` if there is no such pod.
    """
    creates = [(number, step) for number, step in enumerate(scenario.steps) if isinstance(step, Create)]
    matching = [one for one in creates if pod in (None, one[1].pod.name)]
    if not matching:
        names = ", ".join(dict.fromkeys(step.pod.name for _, step in creates)) or "none"
        wanted = "the scenario creates no pod" if pod is None else f'the scenario creates no pod "{pod}"'
        raise InputError(f"{wanted} (its pods: {names})")
    last, create = matching[-1]
    uses: list[tuple[NodeUse, ...]] = []
    simulator = Simulator(scenario, observe=uses.append)
    for number, step in enumerate(scenario.steps[:last]):
        simulator.play(step, number=number)
    uses.clear()
    created = simulator.play(create, number=last)
    assert isinstance(created, Created)  # noqa: S101 - it was a create step
    settings, options = scenario.kubelet, simulator.managers.options
    criteria = _CriteriaOf(simulator, settings.topology_policy)
    return Explanation(
        created=created,
        pod=create.pod,
        policy=settings.topology_policy,
        scope=settings.scope,
        enforcement=scenario.placement.enforcement,
        options=options,
        plugin=plugin_options(scenario.placement) if simulator.managers.how.plugin_prefers else None,
        decisions=tuple(
            _decision(create.pod, decision, use, criteria, withheld=_withheld(created, decision.container))
            for decision, use in zip(created.decisions, uses, strict=True)
        ),
    )


class _CriteriaOf:
    """The criteria of a decision."""

    def __init__(self, simulator: Simulator, policy: PolicyName) -> None:
        self._topology = simulator.node.topology
        self._options = simulator.managers.options
        self._policy = policy

    def of(self, decision: Decision) -> Criteria:
        filtered = filter_providers_hints(decision.hints)
        if self._policy is PolicyName.SINGLE_NUMA_NODE:
            filtered = single_node_hints(filtered)
        best = max_of_min_affinity_counts(filtered)
        return criteria_for(self._topology, self._policy, options=self._options, best_non_preferred=best)

    @property
    def nodes(self) -> Sequence[int]:
        return self._topology.nodes


def _withheld(created: Created, container: str) -> Withheld:
    for one in created.steering:
        if one.container == container:
            return one.decision.withheld
    return {}


def _decision(
    pod: Pod,
    decision: Decision,
    use: Sequence[NodeUse],
    criteria: _CriteriaOf,
    *,
    withheld: Withheld,
) -> DecisionView:
    selection = decision.result.selection
    offers = {resource: hints for provider in decision.hints for resource, hints in provider.items()}
    indifferent = tuple(resource for resource, hints in offers.items() if hints is None)
    cared = {resource: hints for resource, hints in offers.items() if hints is not None}
    needs = _needs(pod, decision.container)
    compared = criteria.of(decision)
    merged = {} if selection is None else {hint.mask or 0: hint for hint in selection.candidates}
    masks = {1 << node for node in criteria.nodes} | merged.keys()
    masks |= {hint.mask for hints in cared.values() for hint in hints if hint.mask}
    by_mask = {
        resource: {hint.mask: hint for hint in reversed(hints) if hint.mask}
        for resource, hints in cared.items()
    }

    def view(mask: int) -> MaskView:
        vetoes = tuple(resource for resource in cared if mask not in by_mask[resource])
        candidate = merged.get(mask)
        chosen = selection is not None and candidate is selection.chosen
        lost_by = None
        if candidate is not None and selection is not None and not chosen:
            lost_by = compare(selection.chosen, candidate, compared).rule
        return MaskView(
            mask=mask,
            hints={resource: hints[mask] for resource, hints in by_mask.items() if mask in hints},
            vetoes=vetoes,
            lacks=tuple(_lacks(mask, vetoes, needs, use=use)),
            merged=candidate,
            chosen=chosen,
            lost_by=lost_by,
            withheld=frozenset(name for name, hidden in withheld.items() if name in cared and hidden & mask),
        )

    return DecisionView(
        container=decision.container,
        needs={resource: needs.get(resource, 0) for resource in offers},
        indifferent=indifferent,
        masks=tuple(view(mask) for mask in sorted(masks, key=lambda mask: (width(mask), mask))),
        hint=decision.result.hint,
        admitted=decision.result.admit,
        rule=decision.result.rule,
        structural=None if selection is None else selection.structural.mask,
    )


def _needs(pod: Pod, name: str) -> dict[ResourceName, int]:
    """Return what the container, or the whole pod, asks the managers for: CPUs, bytes, devices."""
    for container in pod.in_order:
        if container.name == name:
            cpus = exclusive_cpus(pod, container)
            return {**container.limits, **container_requests(container), CPU: cpus}
    return {**pod.effective_limits, **pod_requests(pod), CPU: pod_exclusive_cpus(pod)}


def _lacks(
    mask: int, vetoes: Sequence[ResourceName], needs: Amounts, *, use: Sequence[NodeUse]
) -> Iterator[Lack]:
    """Yield what the set has too little of. Resources that are missing for another reason are left out."""
    nodes = frozenset(nodes_of(mask))
    for resource in vetoes:
        free = sum(max(0, one.free(resource)) for one in use if one.id in nodes)
        if free < needs.get(resource, 0):
            yield Lack(resource, free, needs[resource])
