"""Steering through the kubelet's own managers: what is withheld must not harm any request.

A case's pods are admitted by the Go managers; what PodResources would show of them is read as the daemon
reads it, and ``choose`` decides. Then the same managers are asked for every request twice, with all topology
and with the shaped device lists. The predictions of both outcomes are compared with them as well.

PodResources does not list init containers, and what one of them had and no later container took over stays
taken until the pod ends. Nobody can predict what nobody shows: such cases are counted apart.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numaplace.engine.options import PolicyName
from numaplace.errors import NumaplaceError
from numaplace.model.device import Device
from numaplace.model.mask import mask_of
from numaplace.model.names import CPU, DeviceId, ResourceName
from numaplace.model.podresources import Allocatable, ContainerUse, DeviceBlock, MemoryBlock, PodUse
from numaplace.prediction.harm import Harm, Prediction, harm
from numaplace.prediction.model import KubeletModel
from numaplace.prediction.predict import Withheld, predict
from numaplace.prediction.request import Request
from numaplace.prediction.state import StateUnknown, SteeringState, state_of
from numaplace.reading.names import parse_cpu_list
from numaplace.simulate.scenario.load import parse_scenario
from numaplace.simulate.scenario.records import Health
from numaplace.simulate.scenario.records import Scenario as ParsedScenario
from numaplace.simulate.simulator.managers import managers_for
from numaplace.state.snapshot import Snapshot, build_snapshot
from numaplace.steering.choose import choose
from numaplace.steering.decision import SteeringDecision
from numaplace.steering.published_topology import published

from harness.conformance import ConformanceProcess, Outcome, Scenario, normalise
from harness.generate_steering import SteeringCase, pod_of, steering_case
from harness.shrink import shrink

_TRIED = "tried"


@dataclass(slots=True)
class SteeringTally:
    """What was compared. ``reasons`` counts why resources stayed exposed, ``failures`` holds one text each.

    ``hidden`` are the cases in which PodResources does not show all that is taken, ``hidden_worse`` those of
    them in which a request came off worse for it.
    """

    cases: int = 0
    steered: int = 0
    requests: int = 0
    moved: int = 0
    hidden: int = 0
    hidden_worse: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, other: SteeringTally) -> None:
        """Add what another process has compared."""
        self.cases += other.cases
        self.steered += other.steered
        self.requests += other.requests
        self.moved += other.moved
        self.hidden += other.hidden
        self.hidden_worse += other.hidden_worse
        self.reasons.update(other.reasons)
        self.failures.extend(other.failures)

    def __str__(self) -> str:
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.reasons.most_common())
        return (
            f"{self.cases} cases, {self.steered} with topology withheld; {self.requests} requests tried, "
            f"{self.moved} of them went to another NUMA node than without; exposed for: {reasons}; "
            f"{self.hidden} cases with more taken than PodResources shows, a request worse off in "
            f"{self.hidden_worse} of them"
        )


def try_seeds(program: Path, seeds: range, *, most_failures: int = 3) -> SteeringTally:
    """Try the seeds' cases; each failure is one text with the shrunk scenario."""
    tally = SteeringTally()
    with ConformanceProcess(program) as process:
        for seed in seeds:
            case = steering_case(seed)
            problems = _tried(process, case, tally)
            if problems:
                small = _shrunk(process, case)
                tally.failures.append(
                    f"seed {seed}: {problems[:3]}\n{case.requests}, {case.settings}\n{json.dumps(small)}"
                )
            if len(tally.failures) >= most_failures:
                break
    return tally


def _tried(process: ConformanceProcess, case: SteeringCase, tally: SteeringTally) -> list[str]:
    tally.cases += 1
    trial = _Trial(process, case)
    decision = trial.decide()
    tally.reasons.update({str(one.reason) for one in decision.refusals})
    problems = list(trial.problems(decision))
    tally.steered += bool(decision.withheld)
    tally.requests += trial.requests
    tally.moved += trial.moved
    if trial.hidden:
        tally.hidden += 1
        tally.hidden_worse += trial.worse > 0
        return []
    return problems


def _shrunk(process: ConformanceProcess, case: SteeringCase) -> Scenario:
    def fails(candidate: Scenario) -> bool:
        try:
            smaller = SteeringCase(candidate, case.requests, case.tried, case.settings, case.steerable)
            trial = _Trial(process, smaller)
            return not trial.hidden and bool(list(trial.problems(trial.decide())))
        except (_RefusedScenarioError, NumaplaceError, ValueError, LookupError):
            return False

    small = normalise(case.scenario)
    return shrink(small, fails, limit=300) if fails(small) else small


class _RefusedScenarioError(Exception):
    """The kubelet does not start with this scenario, or one of its steps makes no sense."""


class _Trial:
    """One case: the node as the kubelet has it, the decision, and the requests with and without it."""

    def __init__(self, process: ConformanceProcess, case: SteeringCase) -> None:
        self.requests = self.moved = self.worse = 0
        self._process = process
        self._case = case
        self._scenario = normalise(case.scenario)
        self._parsed = parse_scenario(json.dumps(self._scenario), source="case")
        managers = managers_for(self._parsed)
        settings = self._parsed.kubelet
        self._node = KubeletModel(
            managers.topology,
            settings.topology_policy,
            settings.scope,
            managers.options,
            managers.cpu,
            managers.memory,
            case.steerable & self._parsed.machine.devices.keys(),
        )
        self._hardware = _hardware(self._parsed)
        outcome = self._run([])
        self._snapshot = self._look(outcome["steps"])
        self._state = state_of(self._snapshot, cpu=managers.cpu, memory=managers.memory)
        self.hidden = _taken(outcome) != self._shown()

    def _run(self, steps: Sequence[Scenario]) -> Outcome:
        """Return the outcome of the case's steps and then of these."""
        outcome = self._process.run({**self._scenario, "steps": [*self._scenario["steps"], *steps]})
        if "error" in outcome:
            raise _RefusedScenarioError(outcome["error"])
        return outcome

    def _shown(self) -> dict[str, int]:
        """Return what PodResources shows as taken, by resource; a device of two NUMA nodes counts twice."""
        shown: Counter[str] = Counter()
        for pod in self._snapshot.pods:
            for container in pod.containers:
                shown.update({block.type: block.size_bytes for block in container.memory})
        for resource in (CPU, *self._hardware):
            shown[resource] += sum(use.allocated for use in self._snapshot.per_node(resource).values())
        return {resource: amount for resource, amount in shown.items() if amount}

    def decide(self) -> SteeringDecision:
        """Return what the daemon would decide."""
        states = self._state if isinstance(self._state, StateUnknown) else [self._state]
        return choose(self._node, states, self._case.requests, settings=self._case.settings)

    def problems(self, decision: SteeringDecision) -> Iterator[str]:
        """Say where the rule or a prediction is wrong."""
        units = [unit for request in self._case.tried for unit in request.units(self._node.scope)]
        units = list(dict.fromkeys(unit for unit in units if unit.containers))
        if not self._is_told or not units:
            return
        steers = decision.steers
        rounds = [_attempts(units, 0)]
        if steers:
            rounds += [list(self._withhold(decision)), _attempts(units, 1)]
        created = self._run([step for part in rounds for step in part])["steps"]
        outcomes = created[-len(units) * len(rounds[::2]) :]
        for number, unit in enumerate(units):
            stock = self._seen(outcomes[number])
            yield from self._wrong(unit, stock, {})
            if steers:
                steered = self._seen(outcomes[number + len(units)])
                yield from self._wrong(unit, steered, decision.withheld)
                yield from self._worse(unit, stock, steered)

    @property
    def _is_told(self) -> bool:
        """Whether PodResources tells enough: not how memory is split, by which best-effort may go."""
        if isinstance(self._state, StateUnknown):
            return False
        grouped = any(len(one.cells) > 1 for one in self._state.memory.machine.nodes.values())
        return not (grouped and self._node.policy == PolicyName.BEST_EFFORT)

    def _withhold(self, decision: SteeringDecision) -> Iterator[Scenario]:
        for resource, mask in decision.withheld.items():
            devices = self._hardware[resource]
            shown = published(devices, in_use=self._snapshot.in_use(resource), withheld=mask)
            hidden = [id_ for id_, device in devices.items() if shown[id_] != device.nodes]
            yield {"withhold": {"resource": resource, "ids": hidden}}

    def _wrong(self, unit: Request, seen: _Seen, withheld: Withheld) -> Iterator[str]:
        """Say where the prediction is not what the kubelet did."""
        assert isinstance(self._state, SteeringState)
        told = predict(self._node, self._state, unit, withheld=withheld)
        got = seen.prediction
        pairs: list[tuple[str, object, object]] = [
            ("admitted", told.admitted, got.admitted),
            ("reason", told.reason, got.reason),
            ("mask", told.mask, got.mask),
        ]
        if told.mask is not None:
            pairs.append(("preferred", told.preferred, got.preferred))
        for what, mine, theirs in pairs:
            if mine != theirs:
                yield f"{unit}, withheld {withheld}: {what}: predicted {mine!r}, kubelet {theirs!r}"
        for resource, amount in told.aligned.items():
            if told.admitted and got.admitted and got.aligned.get(resource, 0) < amount:
                what = f"predicted {amount} aligned, kubelet {got.aligned}"
                yield f"{unit}, withheld {withheld}: {resource}: {what}"

    def _worse(self, unit: Request, stock: _Seen, steered: _Seen) -> Iterator[str]:
        self.requests += 1
        self.moved += stock.prediction.mask != steered.prediction.mask
        worse = harm(steered.prediction, instead_of=stock.prediction)
        if worse is None and stock.on_one_node and not steered.on_one_node:
            worse = Harm.LESS_ALIGNED
        if worse is not None:
            self.worse += 1
            yield f"{unit}: {worse}: with {steered.prediction}, without {stock.prediction}"

    def _seen(self, outcome: Outcome) -> _Seen:
        """Return an outcome as a prediction, measured on the hardware's NUMA nodes."""
        if not outcome["admitted"]:
            return _Seen(Prediction(admitted=False, reason=outcome["reason"]), on_one_node=False)
        containers = outcome["containers"]
        affinity = containers[-1]["affinity"]
        mask = None if affinity is None else mask_of(affinity)
        aligned: Counter[ResourceName] = Counter()
        everywhere: list[int] = []
        for resource, home, amount in self._homes(containers):
            aligned[resource] += amount if home & (mask or 0) else 0
            everywhere.append(home)
        one = any(all(home >> node & 1 for home in everywhere) for node in self._node.topology.nodes)
        prediction = Prediction(
            admitted=True, mask=mask, preferred=containers[-1]["preferred"], aligned=dict(aligned)
        )
        return _Seen(prediction, on_one_node=one)

    def _homes(self, containers: Sequence[Outcome]) -> Iterator[tuple[ResourceName, int, int]]:
        """Yield (resource, mask of the NUMA nodes, amount) of each CPU, memory block and device."""
        node_of = self._node.topology.node_of_cpu()
        for container in containers:
            for cpu in parse_cpu_list(container["cpus"]) if container["cpus"] else ():
                yield CPU, 1 << node_of[cpu], 1
            for block in container["memory"]:
                yield ResourceName(block["type"]), mask_of(block["numa"]), block["size"]
            for resource, devices in container["devices"].items():
                for id_ in devices["ids"]:
                    yield resource, self._hardware[resource][id_].mask, 1

    def _look(self, outcomes: Sequence[Outcome]) -> Snapshot:
        """Return what the daemon would know: PodResources, and its own grants to init containers."""
        pods = {one["pod"]: one["containers"] for one in outcomes if one["admitted"]}
        init = _init_containers(self._scenario["steps"])
        for step in self._scenario["steps"]:
            pods.pop(step.get("delete"), None)
        ours = {name: self._hardware[name] for name in self._node.steerable}
        granted: dict[ResourceName, set[DeviceId]] = {name: set() for name in ours}
        for pod, containers in pods.items():
            for container in containers:
                for resource, devices in container["devices"].items():
                    if container["name"] in init[pod] and resource in granted:
                        granted[resource].update(devices["ids"])
        assert self._node.cpu is not None
        assert self._node.memory is not None
        foreign = tuple(
            DeviceBlock(resource, (id_,), device.nodes)
            for resource, devices in self._hardware.items()
            for id_, device in devices.items()
            if resource not in ours and device.healthy
        )
        return build_snapshot(
            topology=self._node.topology,
            allocatable=Allocatable(foreign, self._allocatable_cpus(), self._node.memory.allocatable()),
            pods=[
                PodUse("default", pod, tuple(_use(one) for one in containers if one["name"] not in init[pod]))
                for pod, containers in pods.items()
            ],
            devices=ours,
            granted={resource: frozenset(ids) for resource, ids in granted.items() if ids},
            taken_at_seconds=0.0,
        )

    def _allocatable_cpus(self) -> frozenset[int]:
        allocatable: frozenset[int] = getattr(self._node.cpu, "allocatable", frozenset())
        return allocatable


@dataclass(frozen=True, slots=True)
class _Seen:
    prediction: Prediction
    on_one_node: bool


def _attempts(units: Sequence[Request], number: int) -> list[Scenario]:
    """Return steps that create a pod of each unit and delete it again."""
    steps: list[Scenario] = []
    for index, unit in enumerate(units):
        name = f"{_TRIED}-{number}-{index}"
        steps += [{"create": pod_of(unit, name)}, {"delete": name}]
    return steps


def _taken(outcome: Outcome) -> dict[str, int]:
    """Return what the managers have given away, by resource."""
    taken: Counter[str] = Counter()
    for node in outcome["node"]:
        taken.update(node["allocated"])
    return {resource: amount for resource, amount in taken.items() if amount}


def _hardware(parsed: ParsedScenario) -> dict[ResourceName, dict[DeviceId, Device]]:
    """Return the devices with their health after all steps."""
    tables = {name: {one.id: one for one in devices} for name, devices in parsed.machine.devices.items()}
    for step in parsed.steps:
        if isinstance(step, Health):
            for id_ in step.ids:
                old = tables[step.resource][id_]
                tables[step.resource][id_] = Device(id_, old.nodes, healthy=step.healthy)
    return tables


def _init_containers(steps: Sequence[Scenario]) -> dict[str, frozenset[str]]:
    """Return the names of each pod's init containers that are no sidecars: PodResources hides them."""
    return {
        step["create"]["name"]: frozenset(
            one["name"]
            for one in step["create"].get("initContainers", [])
            if one.get("restartPolicy") != "Always"
        )
        for step in steps
        if "create" in step
    }


def _use(container: Mapping[str, Any]) -> ContainerUse:
    return ContainerUse(
        container["name"],
        tuple(
            DeviceBlock(ResourceName(resource), tuple(devices["ids"]), tuple(devices["numa"]))
            for resource, devices in container["devices"].items()
        ),
        parse_cpu_list(container["cpus"]) if container["cpus"] else frozenset(),
        tuple(
            MemoryBlock(ResourceName(block["type"]), block["size"], tuple(block["numa"]))
            for block in container["memory"]
        ),
    )
