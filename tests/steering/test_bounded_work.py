"""What a decision costs is bounded by its budget, whatever the kubelet's options."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from numaplace.engine.options import PolicyName
from numaplace.managers.admission import Scope
from numaplace.managers.cpu.options import CpuPolicyOptions
from numaplace.managers.cpu.static import StaticCpuPolicy
from numaplace.model.names import CPU, MEMORY, ResourceName, Strategy
from numaplace.prediction import forecast
from numaplace.prediction.forecast import ALLOCATION_COST
from numaplace.prediction.predict import predict
from numaplace.prediction.request import Request
from numaplace.steering.admission.next_states import next_states
from numaplace.steering.choose import SteeringSettings, choose
from steering_machine import GPU, Hardware, Machine, per_node, request

SETTINGS = SteeringSettings(strategy=Strategy.LEAST_ALLOCATED, always=True)


@dataclass(frozen=True)
class _Counted(StaticCpuPolicy):
    """Counts how often CPUs are taken, which is the dearest thing that a CPU manager does."""

    taken = 0

    def allocate(self, state, pod, container, affinity):
        type(self).taken += 1
        return super().allocate(state, pod, container, affinity)


@pytest.mark.parametrize("containers", [1, 2])
@pytest.mark.parametrize("distribute", [False, True])
def test_taking_cpus_is_paid_for(distribute, containers, monkeypatch):
    """Whole cores only, and as many states as requests: one of them is under admission."""
    options = CpuPolicyOptions(full_pcpus_only=True, distribute_across_numa=distribute)
    hardware = Hardware(
        4, (48,) * 4, (), {GPU: per_node(8, 8, 8, 8)}, cpu_options=options, threads=2, scope=Scope.POD
    )
    machine = Machine(hardware)
    machine.create("p", request(gpu=1, cpu=2))
    node = hardware.steering_node()
    cpu = node.cpu
    counted = replace(
        node, cpu=_Counted(cpu.topology, cpu.options, cpu.reserved_bits, cpu.reserved_cores_bits)
    )
    sizes = [request(gpu=1, cpu=2 * number) for number in range(1, 24)]
    states = next_states(node, machine.state(), {GPU: 1}, mask=1, requests=sizes)
    assert len(states) > 20
    more = [{CPU: 2, MEMORY: 1}] * (containers - 1)
    requests = [Request.of(dict(one.total), *more) for one in sizes]
    monkeypatch.setattr(_Counted, "taken", 0)
    choose(counted, states, requests, settings=SETTINGS)
    assert containers > 1 or distribute or not _Counted.taken
    assert _Counted.taken * ALLOCATION_COST <= SETTINGS.max_predictions


@pytest.mark.parametrize(("resources", "most"), [(2, 10), (8, 3)])
def test_a_merge_of_more_resources_costs_more(resources, most, monkeypatch):
    """On six NUMA nodes one of eight resources takes some 15 ms, a third of what a decision may take."""
    names = [ResourceName(f"example.com/r{number}") for number in range(resources)]
    hardware = Hardware(
        6,
        (),
        (),
        dict.fromkeys(names, per_node(*[2] * 6)),
        policy=PolicyName.BEST_EFFORT,
        steerable=frozenset(names),
    )
    machine = Machine(hardware)
    # Nowhere is a pair of each resource left together.
    for node in range(6):
        others = dict.fromkeys(names, 0b111111 & ~(1 << node))
        machine.create(f"p{node}", Request.of({names[node % 2]: 1}), withheld=others)
    requests = [Request.of({**dict.fromkeys(names, 2), names[0]: 2 + number}) for number in range(5)]
    calls = []
    monkeypatch.setattr(forecast, "predict", lambda *args, **kw: calls.append(args) or predict(*args, **kw))
    choose(hardware.steering_node(), machine.states(), requests, settings=SETTINGS)
    assert len(calls) <= most


@pytest.mark.parametrize("scope", list(Scope))
def test_a_pod_that_asks_for_nothing_changes_nothing(scope):
    hardware = Hardware(2, (), (), {GPU: per_node(4, 4)}, scope=scope)
    machine, one = Machine(hardware), request(gpu=1)
    machine.create("p", one)
    node, states = hardware.steering_node(), machine.states()
    for nothing in (Request(()), Request.of({})):
        decision = choose(node, states, [nothing, one], settings=SETTINGS)
        assert decision == choose(node, states, [one], settings=SETTINGS)
