"""Plays a scenario: one admission at a time, each against the state after the previous one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from numaplace.engine.hint import Hint
from numaplace.engine.merge import ProvidersHints
from numaplace.engine.policy import PolicyResult
from numaplace.managers.admission import Decision, Outcome
from numaplace.managers.devices import PreferredCall
from numaplace.managers.kubelet import Answer
from numaplace.managers.pod import Container, Pod
from numaplace.model.names import DeviceId
from numaplace.simulate.scenario.records import Create, Delete, Health, Scenario, Step
from numaplace.simulate.simulator.enforcement import plugin_options
from numaplace.simulate.simulator.managers import managers_for
from numaplace.simulate.simulator.node import SimulatedNode
from numaplace.simulate.simulator.preferred import PreferredPlugin
from numaplace.simulate.simulator.results import (
    ContainerResult,
    Created,
    Deleted,
    HealthChanged,
    NodeUse,
    StepResult,
)
from numaplace.simulate.simulator.shares import CONTAINER, occupy
from numaplace.simulate.simulator.steering import Steering

Observer = Callable[[tuple[NodeUse, ...]], None]


@dataclass(frozen=True, slots=True)
class Run:
    """The results of all steps, and the node in the end."""

    steps: tuple[StepResult, ...]
    node: tuple[NodeUse, ...]


class Simulator:
    """A node and its pods. Not for use by several threads.

    ``observe`` is called with the node's use whenever the Topology Manager is about to decide. ``answer`` is
    GetPreferredAllocation of the plugins that do not place by the scenario's strategy; they have none if it
    is not given.
    """

    def __init__(
        self, scenario: Scenario, *, observe: Observer | None = None, answer: Answer | None = None
    ) -> None:
        """Make the node with its initial state; ``ScenarioError`` where a kubelet would not start."""
        managers = managers_for(scenario)
        self._observe = observe
        self._other_answer = answer
        self._policy_merge = managers.merge
        self._plugin = (
            PreferredPlugin(
                plugin_options(scenario.placement),
                follow_cpus=scenario.placement.follow_cpus and managers.merge is None,
            )
            if managers.how.plugin_prefers
            else None
        )
        self.node = SimulatedNode(
            managers,
            scenario.machine.devices,
            merge=None if managers.merge is None else self._merge,
            scope=scenario.kubelet.scope,
            answer=self._answer,
            allocated=self._allocated,
        )
        self._steering = (
            Steering(self.node, managers, scenario.kubelet, scenario.placement)
            if managers.how.plugin_steers
            else None
        )
        self.managers = managers
        self._pods: dict[str, Pod] = {}
        for holder in occupy(self.node, scenario.allocated):
            if self._plugin is not None:
                self._plugin.keep(self.node, holder, [CONTAINER])

    def play(self, step: Step, *, number: int) -> StepResult:
        match step:
            case Create(pod):
                return self._create(pod, number)
            case Delete(name):
                return self._delete(name, number)
            case Health(resource, ids, healthy):
                self.node.set_health(step)
                return HealthChanged(number, resource, ids, healthy)

    def _create(self, pod: Pod, number: int) -> Created:
        if self._plugin is not None:
            self._plugin.begin(number)
        if self._steering is not None:
            self._steering.begin(pod)
        outcome = self.node.kubelet.admit(pod)
        containers = tuple(self._containers(pod, outcome))
        if outcome.admitted:
            self._pods[pod.name] = pod
            self.node.kubelet.start(pod)
            if self._plugin is not None:
                self._plugin.keep(self.node, pod.uid, [one.name for one in pod.in_order])
            if self._steering is not None:
                self._steering.admitted(pod)
        return Created(
            step=number,
            pod=pod.name,
            admitted=outcome.admitted,
            reason=outcome.reason,
            message=outcome.message,
            containers=containers,
            decisions=outcome.decisions,
            steering=() if self._steering is None else self._steering.steered,
        )

    def _delete(self, name: str, number: int) -> Deleted:
        pod = self._pods.pop(name, None)
        if pod is None:
            return Deleted(number, name, held=False)
        if self._plugin is not None:
            self._plugin.step = number
            self._plugin.freed(self.node, pod.uid)
        self.node.kubelet.delete(pod)
        return Deleted(number, name, held=True)

    def _merge(self, hints: ProvidersHints) -> PolicyResult:
        assert self._policy_merge is not None  # noqa: S101 - not called under policy none
        if self._observe is not None:
            self._observe(self.node.use())
        return self._policy_merge(hints)

    def _answer(self, call: PreferredCall, pod: Pod, container: Container) -> Sequence[DeviceId] | None:
        if self._plugin is None:
            return self._other_answer(call, pod, container) if self._other_answer else None
        return self._plugin.answer(self.node, call, pod=pod, container=container)

    def _allocated(self, pod: Pod, container: Container) -> None:
        if self._steering is not None:
            self._steering.allocated(pod, container)

    def _containers(self, pod: Pod, outcome: Outcome) -> Iterator[ContainerResult]:
        """Yield the containers that were considered: all of an admitted pod, of another up to the failure."""
        decisions = {decision.container: decision for decision in outcome.decisions}
        for container in pod.in_order:
            decision = decisions.get(container.name, decisions.get(""))
            if decision is None and container.name not in outcome.affinities:
                return
            yield self._container(pod, container, decision, admitted=outcome.admitted)

    def _container(
        self, pod: Pod, container: Container, decision: Decision | None, *, admitted: bool
    ) -> ContainerResult:
        name = container.name
        placements = {}
        if self._plugin is not None:
            made = self._plugin.placements.items()
            placements = {resource: one for (owner, resource), one in made if owner == name}
        held = self.node if admitted else None
        result = ContainerResult(
            name=name,
            cpus=held.held_cpus(pod.uid, name) if held else frozenset(),
            memory=held.held_memory(pod.uid, name) if held else (),
            devices=held.held_devices(pod.uid, name) if held else {},
            placements=placements,
        )
        if decision is not None:
            return _decided(result, decision, self.node.topology.mask)
        return _placed(result)


def _decided(result: ContainerResult, decision: Decision, everywhere: int) -> ContainerResult:
    hint, selection = decision.result.hint, decision.result.selection
    structural = None if selection is None else selection.structural.mask
    if hint.mask is None and structural == everywhere:
        structural = None
    return replace(
        result,
        affinity=hint.mask,
        preferred=hint.preferred,
        structural=structural,
        rule=decision.result.rule,
        candidates=() if selection is None else selection.candidates,
    )


def _placed(result: ContainerResult) -> ContainerResult:
    """Return the result with what the plugin decided for the first resource that it had a choice of."""
    for placement in result.placements.values():
        choice = placement.choice
        if choice.rule is not None:
            return replace(
                result,
                structural=choice.structural,
                rule=choice.rule,
                candidates=tuple(Hint(one.mask, one.preferred, one.score) for one in choice.candidates),
            )
    return result


def simulate(
    scenario: Scenario,
    *,
    progress: Callable[[int], None] | None = None,
    answer: Answer | None = None,
) -> Run:
    """Run a scenario; ``progress`` gets the number of finished steps, ``answer`` is as in ``Simulator``.

    Raises ``ScenarioError``.
    """
    simulator = Simulator(scenario, answer=answer)
    results = []
    for number, step in enumerate(scenario.steps):
        results.append(simulator.play(step, number=number))
        if progress is not None:
            progress(number + 1)
    return Run(tuple(results), simulator.node.use())
