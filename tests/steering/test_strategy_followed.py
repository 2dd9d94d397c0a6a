"""With the withheld set a stock kubelet takes the NUMA node that a kubelet of KEP-6007 would take."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from numaplace.engine.options import PolicyName, PolicyOptions
from numaplace.engine.weights import parse_weights
from numaplace.managers.admission import Scope
from numaplace.model.names import Strategy
from numaplace.steering.choose import SteeringSettings, choose
from numaplace.steering.decision import Reason
from steering_machine import GPU, VF, Hardware, Machine, per_node, pick, request

LEAST, MOST = Strategy.LEAST_ALLOCATED, Strategy.MOST_ALLOCATED
ALIGNING = [PolicyName.BEST_EFFORT, PolicyName.RESTRICTED, PolicyName.SINGLE_NUMA_NODE]


def decide(machine, requests, *, strategy=LEAST, weights="", **settings):
    wanted = SteeringSettings(strategy=strategy, weights=parse_weights(weights), **settings)
    return choose(machine.hardware.steering_node(), machine.states(), requests, settings=wanted)


def kep_pick(machine, one, *, strategy, weights):
    options = PolicyOptions(strategy=strategy, weights=parse_weights(weights))
    return pick(machine.copy(options=options).create("new", one))


def play(hardware, requests, *, known, strategy=LEAST, weights="", seed=0, steps=60, always=False):
    """Create and delete at random; return (are all picks the KEP's, how many are not the stock kubelet's).

    Best-effort admits a size that no node has left and spreads it: no exposed set serves that and a small
    size, and it leaves nodes with CPUs but no devices. Such states are passed over, such pods not created.
    """
    rng, machine = Random(seed), Machine(hardware)
    equal = moved = total = 0
    for step in range(steps):
        if machine.kubelet.pods and rng.random() < 0.4:
            machine.delete(rng.choice(sorted(machine.kubelet.pods)))
            continue
        decision = decide(machine, known, strategy=strategy, weights=weights, always=always)
        if any(out.wanted.admitted and not out.wanted.preferred for out in decision.requests):
            continue
        one = rng.choice(requests)
        wanted = kep_pick(machine, one, strategy=strategy, weights=weights)
        stock = pick(machine.copy().create("new", one))
        got = pick(machine.create(f"p{step}", one, withheld=decision.withheld))
        equal, moved, total = equal + (got == wanted), moved + (got != stock), total + 1
    return equal == total, moved


@pytest.mark.parametrize("scope", list(Scope))
@pytest.mark.parametrize("policy", ALIGNING)
@pytest.mark.parametrize("nodes", [2, 4, 8])
def test_least_allocated_on_equal_nodes_is_the_keps_in_every_state(nodes, policy, scope):
    hardware = Hardware(
        nodes, (64,) * nodes, (256,) * nodes, {GPU: per_node(*[8] * nodes)}, policy=policy, scope=scope
    )
    steps = 24 if nodes == 8 else 60
    requests = [request(gpu=size, cpu=4 * size, memory=8 * size) for size in (1, 2, 4)]
    for seed in range(3):
        same, moved = play(hardware, requests, known=requests, seed=seed, steps=steps, always=True)
        assert same
        assert moved > 0


@pytest.mark.parametrize("policy", ALIGNING)
@pytest.mark.parametrize("weights", ["example.com/gpu=10,cpu=0,memory=0,example.com/vf=0", "cpu=0,memory=0"])
def test_weights_that_single_out_a_resource_are_the_keps(policy, weights):
    nodes = 4
    devices = {GPU: per_node(*[8] * nodes), VF: per_node(*[16] * nodes)}
    hardware = Hardware(nodes, (64,) * nodes, (256,) * nodes, devices, policy=policy)
    requests = [request(gpu=1, vf=2, cpu=4, memory=8), request(gpu=2, vf=4, cpu=8, memory=16)]
    for seed in range(3):
        same, moved = play(hardware, requests, known=requests, weights=weights, seed=seed, always=True)
        assert same
        assert moved > 0


@pytest.mark.parametrize("policy", ALIGNING)
@pytest.mark.parametrize("size", [1, 3])
def test_most_allocated_with_one_request_is_the_keps(policy, size):
    hardware = Hardware(4, (32,) * 4, (64,) * 4, {GPU: per_node(8, 8, 8, 8)}, policy=policy)
    requests = [request(gpu=size, cpu=4, memory=4)]
    for seed in range(3):
        assert play(hardware, requests, known=requests, strategy=MOST, seed=seed)[0]


def test_unknown_requests_are_spread_over_equal_nodes():
    nodes = 4
    hardware = Hardware(nodes, (64,) * nodes, (256,) * nodes, {GPU: per_node(*[8] * nodes)})
    requests = [request(gpu=size, cpu=4 * size, memory=8 * size) for size in (1, 2, 4)]
    for seed in range(3):
        same, moved = play(hardware, requests, known=[], seed=seed, always=True)
        assert same
        assert moved > 0


def test_a_request_over_several_numa_nodes_is_steered_too():
    hardware = Hardware(4, (), (), {GPU: per_node(2, 2, 2, 2)}, policy=PolicyName.RESTRICTED)
    machine, pair = Machine(hardware), request(gpu=3)
    machine.create("p", pair)
    decision = decide(machine, [pair], always=True)
    assert pick(machine.create("q", pair, withheld=decision.withheld)) == (2, 3)


def test_several_resources_follow_one_node():
    hardware = Hardware(3, (16,) * 3, (32,) * 3, {GPU: per_node(4, 4, 4), VF: per_node(8, 8, 8)})
    machine, both = Machine(hardware), request(gpu=1, vf=2, cpu=2, memory=2)
    picks = []
    for number in range(6):
        withheld = decide(machine, [both, request(gpu=1), request(vf=1)], always=True).withheld
        picks.append(pick(machine.create(f"p{number}", both, withheld=withheld)))
        assert machine.on_one_node(f"p{number}")
    assert picks == [(0,), (1,), (2,)] * 2


def fill(machine, node, amounts):
    """Give a NUMA node's amounts away in one pod, with all other nodes withheld."""
    others = machine.topology.mask & ~(1 << node)
    outcome = machine.create(
        f"fill{node}", request(**amounts), withheld=dict.fromkeys(machine.tables, others)
    )
    assert pick(outcome) == (node,)


@pytest.mark.parametrize(
    ("strategy", "weights", "node"),
    [
        (MOST, "", 0),
        (MOST, "example.com/gpu=10", 1),
        (MOST, "cpu=3,memory=1,example.com/gpu=6", 1),
        (MOST, "cpu=5,example.com/gpu=5", 0),
        (MOST, "example.com/gpu=10,cpu=0", 1),
        (MOST, "cpu=100,memory=100,example.com/gpu=100", 0),
        (LEAST, "example.com/gpu=10", 0),
    ],
)
def test_kep_6007_example_1(strategy, weights, node):
    hardware = Hardware(2, (64, 64), (128, 128), {GPU: per_node(4, 4)}, scope=Scope.POD)
    machine, one = Machine(hardware), request(cpu=8, memory=16, gpu=1)
    fill(machine, 0, {"cpu": 48, "memory": 64, "gpu": 1})
    fill(machine, 1, {"cpu": 16, "memory": 32, "gpu": 3})
    decision = decide(machine, [one], strategy=strategy, weights=weights)
    assert decision.steers == (node != 0)
    assert pick(machine.create("p", one, withheld=decision.withheld)) == (node,)


@pytest.mark.parametrize(("weights", "node"), [("", 0), ("cpu=0,memory=0", 1)])
def test_kep_6007_example_2(weights, node):
    hardware = Hardware(4, (32,) * 4, (128,) * 4, {VF: per_node(8, 8, 8, 8)}, scope=Scope.POD)
    machine, one, other = Machine(hardware), request(cpu=2, memory=4, vf=1), request(cpu=2, memory=4)
    for numa, (cpu, memory, vf) in enumerate([(8, 32, 6), (24, 96, 2), (16, 64, 4), (16, 64, 4)]):
        fill(machine, numa, {"cpu": cpu, "memory": memory, "vf": vf})
    decision = decide(machine, [one, other], weights=weights, always=True)
    assert pick(machine.create("p", one, withheld=decision.withheld)) == (node,)
    assert pick(machine.create("q", other, withheld=decision.withheld)) == (0,)


@pytest.mark.parametrize("strategy", [LEAST, MOST])
def test_several_sizes_are_left_to_the_kubelet(strategy):
    hardware = Hardware(2, (), (), {GPU: per_node(4, 4)})
    machine = Machine(hardware)
    machine.create("a", request(gpu=1))
    machine.create("b", request(gpu=2), withheld={GPU: 0b1})
    sizes = [request(gpu=1), request(gpu=2)]
    decision = decide(machine, sizes, strategy=strategy)
    assert not decision.steers
    (refusal,) = decision.refusals
    assert (refusal.reason, refusal.request, refusal.other) == (Reason.SEVERAL_SIZES, *sizes)
    assert decide(machine, [], strategy=strategy).refusals[0].reason is Reason.REQUESTS_UNKNOWN
    # Told to, it follows: packing wants both on node 1, spreading both on node 0, where the kubelet goes.
    told = decide(machine, sizes, strategy=strategy, always=True)
    assert told.withheld == ({GPU: 0b1} if strategy is MOST else {})
    alone = decide(machine, sizes[:1], strategy=strategy)
    assert alone.withheld == told.withheld


def test_resources_that_no_request_joins_are_decided_on_apart():
    hardware = Hardware(2, (), (), {GPU: per_node(4, 4), VF: per_node(4, 4)})
    machine = Machine(hardware)
    for number, one in enumerate([request(gpu=1), request(vf=1)]):
        machine.create(f"p{number}", one)
    decision = choose(
        machine.hardware.steering_node(),
        machine.states(),
        [request(gpu=1), request(vf=1)],
        settings=SteeringSettings(strategy=LEAST, strategies={VF: Strategy.NONE}),
    )
    assert decision.withheld == {GPU: 0b1}
    assert [(one.reason, one.resources) for one in decision.refusals] == [(Reason.NO_STRATEGY, {VF})]


def test_the_least_is_withheld():
    # Node 1 is wanted: node 2 comes after it anyway, and one of the two resources rules node 0 out.
    hardware = Hardware(3, (), (), {GPU: per_node(4, 4, 4), VF: per_node(4, 4, 4)})
    machine, both = Machine(hardware), request(gpu=1, vf=1)
    machine.create("p", both)
    assert decide(machine, [both]).withheld == {GPU: 0b1}


def test_a_resource_of_another_plugin_still_counts():
    # Node 1 has no free VF, and VFs are not ours: the pod has to go to node 2.
    hardware = Hardware(
        3, (), (), {GPU: per_node(4, 4, 4), VF: per_node(4, 1, 4)}, steerable=frozenset({GPU})
    )
    machine, both = Machine(hardware), request(gpu=1, vf=1)
    machine.create("a", request(vf=1), withheld={VF: 0b101})
    machine.create("b", both)
    decision = decide(machine, [both])
    assert decision.withheld == {GPU: 0b1}
    assert pick(machine.create("c", both, withheld=decision.withheld)) == (2,)


def test_the_closest_nodes_rule_of_the_kubelet_stays_in_force():
    distances = {0: {0: 10, 1: 20, 2: 40, 3: 40}, 1: {0: 20, 1: 10, 2: 40, 3: 40}}
    distances |= {2: {0: 40, 1: 40, 2: 10, 3: 20}, 3: {0: 40, 1: 40, 2: 20, 3: 10}}
    options = PolicyOptions(prefer_closest=True)
    hardware = Hardware(4, (), (), {GPU: per_node(2, 2, 2, 2)}, policy=PolicyName.RESTRICTED, options=options)
    node = hardware.steering_node()
    node = replace(node, topology=replace(node.topology, distances=distances))
    machine = Machine(hardware)
    machine.create("p", request(gpu=1))
    settings = SteeringSettings(strategy=LEAST, always=True)
    decision = choose(node, machine.states(), [request(gpu=3)], settings=settings)
    (forecast,) = decision.requests
    assert (forecast.stock.mask, forecast.wanted.mask, forecast.steered.mask) == (0b0011, 0b1100, 0b1100)
