"""Where requests are learnt, others may come: a set that refuses any request at all does not count."""

from __future__ import annotations

from dataclasses import replace

import pytest
from numaplace.engine.options import PolicyName
from numaplace.model.names import CPU, MEMORY, Strategy
from numaplace.prediction.request import Request
from numaplace.steering.choose import SteeringSettings, choose
from numaplace.steering.decision import Reason
from steering_machine import GIB, GPU, VF, Hardware, Machine, per_node, request
from test_never_worse import assert_not_worse, case

REFUSING = [PolicyName.RESTRICTED, PolicyName.SINGLE_NUMA_NODE]
MOST = SteeringSettings(strategy=Strategy.MOST_ALLOCATED)
LEAST = SteeringSettings(strategy=Strategy.LEAST_ALLOCATED)


def test_no_request_at_all_comes_off_worse():
    steered = 0
    for seed in range(900):
        machine, requests, settings = case(seed, even=seed % 5 > 0)
        if machine.hardware.policy not in REFUSING:
            continue
        node = machine.hardware.steering_node()
        decision = choose(node, machine.states(), requests, settings=settings, certain=False)
        if decision.withheld:
            steered += 1
            first, last = next(iter(machine.tables)), list(machine.tables)[-1]
            compute = ({}, {CPU: 3, MEMORY: 2 * GIB}, {CPU: 6, MEMORY: GIB})
            every = [
                Request.of({first: size, last: other, **more})
                for size in range(1, 9)
                for other in (0, 1, 3)
                for more in compute
            ]
            assert_not_worse(machine, [*requests, *every], decision.withheld)
    assert steered > 40


def half_full(policy):
    machine = Machine(Hardware(devices={GPU: per_node(4, 4)}, policy=policy))
    for number in range(5):
        machine.create(f"p{number}", request(gpu=1))
    for number in range(4):
        machine.delete(f"p{number}")
    return machine


@pytest.mark.parametrize("policy", REFUSING)
def test_packing_takes_declared_requests(policy):
    """The empty node is not wanted for one device, but a request for four fits nowhere else."""
    machine = half_full(policy)
    node, one = machine.hardware.steering_node(), [request(gpu=1)]
    assert choose(node, machine.states(), one, settings=MOST).withheld == {GPU: 0b1}
    (refusal,) = choose(node, machine.states(), one, settings=MOST, certain=False).refusals
    assert (refusal.reason, refusal.resources) == (Reason.OTHERS_MAY_COME, frozenset({GPU}))


def test_best_effort_refuses_nothing_and_may_pack():
    machine = half_full(PolicyName.BEST_EFFORT)
    node, one = machine.hardware.steering_node(), [request(gpu=1)]
    assert choose(node, machine.states(), one, settings=MOST, certain=False).withheld == {GPU: 0b1}


def test_spreading_over_equal_nodes_takes_none():
    machine = Machine(Hardware(devices={GPU: per_node(4, 4)}))
    machine.create("p", request(gpu=1))
    node, one = machine.hardware.steering_node(), [request(gpu=1)]
    decision = choose(node, machine.states(), one, settings=LEAST, certain=False)
    assert decision.withheld == {GPU: 0b1}


def test_what_is_not_settled_is_not_relied_upon():
    """A container under admission may still take any number of CPUs from the wanted node."""
    machine = Machine(Hardware(devices={GPU: per_node(4, 4)}))
    machine.create("p", request(gpu=1))
    states = [replace(one, unsettled=2) for one in machine.states()]
    node, one = machine.hardware.steering_node(), [request(gpu=1)]
    assert not choose(node, states, one, settings=LEAST, certain=False).withheld


def test_resources_that_no_known_request_names_together_may_be_asked_for_together():
    """One is wanted on node 1 and the other on node 0: nothing would be left for a request for both."""
    machine = Machine(
        Hardware(
            devices={GPU: per_node(2, 2, 2), VF: per_node(2, 2, 2)},
            nodes=3,
            cpus=(8, 8, 8),
            memory_gib=(16, 16, 16),
        )
    )
    machine.create("g", request(gpu=1))
    machine.create("v", request(vf=1), withheld={VF: 0b1})
    node, requests = machine.hardware.steering_node(), [request(gpu=1), request(vf=1)]
    decision = choose(node, machine.states(), requests, settings=replace(LEAST, always=True), certain=False)
    assert_not_worse(machine, [*requests, request(gpu=1, vf=1), request(gpu=2, vf=2)], decision.withheld)
