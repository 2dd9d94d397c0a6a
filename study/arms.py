"""Who places the jobs: the kubelet alone, or a strategy in the plugin or in the kubelet (KEP-6007)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from numaplace.engine.options import PolicyName
from numaplace.engine.weights import parse_weights
from numaplace.model.names import CPU, Strategy
from numaplace.prediction.request import Request
from numaplace.simulate.scenario.records import Enforcement, KubeletSettings, PlacementSettings, Scenario

from study.worlds import World, machine_of, reserved_cpus

GATES = {"TopologyManagerPolicyAlphaOptions": True}
CLOSEST = {"prefer-closest-numa-nodes": "true"}

NAMES = {
    Enforcement.KUBELET: "KEP-6007",
    Enforcement.PREFERRED: "numaplace",
    Enforcement.STEERING: "steering",
}


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to place. The first arm of each Topology Manager policy is the baseline of the others.

    ``always`` is the steering mode that follows the strategy also with several sizes.
    """

    policy: PolicyName
    enforcement: Enforcement = Enforcement.OFF
    strategy: Strategy = Strategy.NONE
    weighted: bool = False
    closest: bool = False
    always: bool = False

    @property
    def name(self) -> str:
        name = f"{NAMES[self.enforcement]} {self.strategy}" if self.enforcement in NAMES else self._alone
        marks = {"always": self.always, "weights": self.weighted, "closest": self.closest}
        return ", ".join([name, *(mark for mark, given in marks.items() if given)])

    @property
    def _alone(self) -> str:
        return "kubelet alone (random)" if self.policy is PolicyName.NONE else "kubelet alone"


POLICIES = (PolicyName.NONE, PolicyName.SINGLE_NUMA_NODE, PolicyName.BEST_EFFORT)
_IN_KUBELET = (Enforcement.STEERING, Enforcement.KUBELET)


def arms_for(world: World) -> tuple[Arm, ...]:
    return tuple(arm for policy in POLICIES for arm in _arms(world, policy))


def _arms(world: World, policy: PolicyName) -> Iterator[Arm]:
    yield Arm(policy)
    if policy is PolicyName.NONE:
        yield Arm(policy, Enforcement.PREFERRED)
    who = (Enforcement.PREFERRED,) if policy is PolicyName.NONE else _IN_KUBELET
    for enforcement in who:
        for strategy in (Strategy.MOST_ALLOCATED, Strategy.LEAST_ALLOCATED):
            yield Arm(policy, enforcement, strategy)
            if world.weights:
                yield Arm(policy, enforcement, strategy, weighted=True)
        if enforcement is Enforcement.STEERING:
            yield Arm(policy, enforcement, Strategy.LEAST_ALLOCATED, always=True)
    if world.domains and policy is not PolicyName.SINGLE_NUMA_NODE:
        if policy is not PolicyName.NONE:
            yield Arm(policy, closest=True)
        for strategy in (Strategy.MOST_ALLOCATED, Strategy.LEAST_ALLOCATED):
            yield Arm(policy, who[-1], strategy, closest=True)


def scenario_of(world: World, arm: Arm) -> Scenario:
    return Scenario(
        machine=machine_of(world),
        kubelet=KubeletSettings(
            topology_policy=arm.policy,
            topology_options=CLOSEST if arm.closest and arm.policy is not PolicyName.NONE else {},
            cpu_policy="static" if CPU in world.capacity else "none",
            reserved_cpus=reserved_cpus(world),
            gates=GATES,
        ),
        placement=PlacementSettings(
            strategy=arm.strategy,
            weights=parse_weights(world.weights if arm.weighted else ""),
            enforcement=arm.enforcement,
            prefer_closest=arm.closest,
            requests=requests_of(world),
            always=arm.always,
        ),
    )


def requests_of(world: World) -> tuple[Request, ...]:
    """Return the requests declared for steering: all jobs with devices or CPUs."""
    return tuple(Request.of(request.amounts) for request in world.requests)
