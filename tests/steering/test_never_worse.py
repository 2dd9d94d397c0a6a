"""Whatever is withheld, the kubelet's managers do as well by every request as without."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numaplace.engine.options import PolicyName, PolicyOptions
from numaplace.engine.weights import weights_from_mapping
from numaplace.managers.admission import Scope
from numaplace.managers.cpu.options import CpuPolicyOptions
from numaplace.model.mask import mask_of, width
from numaplace.model.names import CPU, MEMORY, DeviceId, Strategy
from numaplace.prediction.demand import demand_of
from numaplace.prediction.forecast import Budget, Forecast
from numaplace.prediction.predict import predict
from numaplace.prediction.request import Request
from numaplace.prediction.state import StateUnknown
from numaplace.steering.choose import SteeringSettings, choose
from steering_machine import GIB, GPU, NIC, VF, Hardware, Machine, per_node

POLICIES = [PolicyName.BEST_EFFORT, PolicyName.RESTRICTED, PolicyName.SINGLE_NUMA_NODE]


@st.composite
def hardware(draw, *, even=False):
    nodes = draw(st.integers(2, 4))
    if even:
        sizes = (draw(st.integers(2, 8)),) * nodes
        spots = [(node,) for node in range(nodes) for _ in range(draw(st.integers(1, 4)))]
    else:
        sizes = tuple(draw(st.lists(st.integers(1, 8), min_size=nodes, max_size=nodes)))
        one = st.integers(0, nodes - 1).map(lambda node: (node,))
        two = st.tuples(st.integers(0, nodes - 2)).map(lambda node: (node[0], node[0] + 1))
        spots = draw(st.lists(st.one_of(one, one, one, one, two, st.just(())), min_size=1, max_size=10))
    names = draw(st.lists(st.sampled_from([GPU, VF, NIC]), min_size=1, max_size=3, unique=True))
    devices = {names[0]: tuple(spots)}
    for name in names[1:]:
        devices[name] = tuple((node,) for node in draw(st.lists(st.integers(0, nodes - 1), max_size=8)))
    ids = [
        DeviceId(f"{name.partition('/')[2]}{number}") for name in names if name != NIC for number in range(3)
    ]
    return Hardware(
        nodes=nodes,
        cpus=draw(st.sampled_from([(), sizes])),
        memory_gib=draw(st.sampled_from([(), sizes])),
        devices=devices,
        unhealthy=frozenset(draw(st.lists(st.sampled_from(ids), max_size=2) if ids else st.just([]))),
        policy=draw(st.sampled_from(POLICIES)),
        scope=draw(st.sampled_from(list(Scope))),
        options=PolicyOptions(prefer_closest=draw(st.booleans())),
        cpu_options=draw(st.sampled_from(CPU_OPTIONS)),
        threads=draw(st.sampled_from([1, 2])),
    )


CPU_OPTIONS = [
    CpuPolicyOptions(),
    CpuPolicyOptions(full_pcpus_only=True),
    CpuPolicyOptions(full_pcpus_only=True, prefer_uncore_cache=True),
    CpuPolicyOptions(distribute_across_numa=True, strict_reservation=True),
    CpuPolicyOptions(full_pcpus_only=True, distribute_across_numa=True),
    CpuPolicyOptions(distribute_across_cores=True),
]
CONTAINERS = st.builds(
    lambda devices, compute: {**devices, **compute},
    st.dictionaries(st.sampled_from([GPU, VF, NIC]), st.integers(1, 3), min_size=0, max_size=2),
    st.sampled_from(
        [{}, {}, {CPU: 1, MEMORY: GIB}, {CPU: 2, MEMORY: 3 * GIB}, {CPU: 5, MEMORY: GIB}, {MEMORY: 4 * GIB}]
    ),
)
REQUESTS = st.lists(CONTAINERS, min_size=1, max_size=2).map(lambda containers: Request.of(*containers))
STRATEGIES = st.builds(
    lambda strategy, weights, always: SteeringSettings(
        strategy=strategy, weights=weights_from_mapping(weights), always=always
    ),
    st.sampled_from([Strategy.MOST_ALLOCATED, Strategy.LEAST_ALLOCATED]),
    st.sampled_from([{}, {CPU: 0, MEMORY: 0}, {GPU: 10, VF: 0}, {CPU: 3, MEMORY: 1, GPU: 6}]),
    st.booleans(),
)


def filled(machine, fills):
    for number, (request, keep) in enumerate(fills):
        machine.create(f"p{number}", request)
        if not keep:
            machine.delete(f"p{number}")
    return machine


FILLS = st.lists(st.tuples(REQUESTS, st.sampled_from([True, True, True, False])), max_size=8)


def measured(machine, unit, withheld):
    """Admit on a copy: whether it was, the affinity's width, whether all of the pod is on one NUMA node."""
    copy = machine.copy()
    outcome = copy.create("new", unit, withheld=withheld)
    if not outcome.admitted:
        return False, 0, False
    hint = list(outcome.affinities.values())[-1]
    everywhere = len(machine.topology.nodes)
    wide = everywhere if hint.mask is None else width(hint.mask)
    return True, wide, copy.on_one_node("new")


def assert_not_worse(machine, requests, withheld):
    for unit in {unit for request in requests for unit in request.units(machine.hardware.scope)}:
        admitted, wide, on_one = measured(machine, unit, {})
        now = measured(machine, unit, withheld)
        assert now[0] == admitted, unit
        assert now[1] <= wide, unit
        assert now[2] or not on_one, unit


def case(seed, *, even):
    """Return a machine that is partly full, requests that may arrive, and what is wanted."""
    rng = Random(seed)
    nodes = rng.choice((2, 2, 3, 4))
    names = rng.sample((GPU, VF, NIC), rng.choice((1, 2, 2, 3)))
    devices = {}
    for name in names:
        each = rng.choice((2, 3, 4, 6))
        counts = [each if even else rng.choice((0, 1, each, each, each + 2)) for _ in range(nodes)]
        spots = list(per_node(*counts))
        if not even and rng.random() < 0.3:
            spots += [(node, node + 1) for node in range(nodes - 1)] + [()]
        devices[name] = tuple(spots)
    cpus = tuple(8 if even or rng.random() < 0.7 else rng.randrange(2, 12) for _ in range(nodes))
    unhealthy = [DeviceId(f"{name.partition('/')[2]}{rng.randrange(4)}") for name in names]
    hardware = Hardware(
        nodes=nodes,
        cpus=rng.choice(((), cpus, cpus)),
        memory_gib=rng.choice(((), cpus, cpus)),
        devices=devices,
        unhealthy=frozenset(unhealthy) if rng.random() < 0.2 else frozenset(),
        policy=rng.choice(POLICIES),
        scope=rng.choice(list(Scope)),
        cpu_options=CpuPolicyOptions(align_by_socket=rng.random() < 0.05),
        steerable=frozenset(rng.choice(((GPU, VF), (GPU, VF, NIC), names))),
    )
    if hardware.policy is PolicyName.SINGLE_NUMA_NODE:
        hardware = replace(hardware, cpu_options=CpuPolicyOptions())
    computes = [{}, {CPU: 1, MEMORY: GIB}, {CPU: 2, MEMORY: GIB}, {CPU: 4, MEMORY: 3 * GIB}, {MEMORY: GIB}]

    def container():
        wanted = {
            name: rng.choice((1, 1, 1, 2, 4)) for name in rng.sample(names, rng.choice((1, 1, len(names))))
        }
        return {**wanted, **rng.choice(computes)}

    def requests(count):
        return [Request.of(*[container() for _ in range(rng.choice((1, 1, 1, 2)))]) for _ in range(count)]

    known = requests(rng.choice((1, 1, 2, 3, 5)))
    fills = [rng.choice([*known, *requests(1)]) for _ in range(rng.randrange(1, 3 * nodes))]
    machine = filled(Machine(hardware), [(one, rng.random() < 0.8) for one in fills])
    settings = SteeringSettings(
        strategy=rng.choice((Strategy.LEAST_ALLOCATED, Strategy.LEAST_ALLOCATED, Strategy.MOST_ALLOCATED)),
        weights=weights_from_mapping(
            rng.choice(({}, {CPU: 0, MEMORY: 0}, {names[0]: 10}, {CPU: 3, names[0]: 6}))
        ),
        always=rng.random() < 0.8,
    )
    return machine, known, settings


def test_no_known_request_comes_off_worse():
    steered = 0
    for seed in range(800):
        machine, requests, settings = case(seed, even=seed % 3 > 0)
        node = machine.hardware.steering_node()
        before = dict.fromkeys([*machine.tables][: seed % 2], 1 << seed % machine.hardware.nodes)
        decision = choose(node, machine.states(), requests, settings=settings, preferring=before)
        if decision.withheld:
            steered += 1
            assert_not_worse(machine, requests, decision.withheld)
    assert steered > 90


def test_no_unknown_request_comes_off_worse():
    steered = 0
    for seed in range(600):
        machine, requests, settings = case(seed, even=seed % 5 > 0)
        node = machine.hardware.steering_node()
        decision = choose(node, machine.states(), [], settings=settings)
        if decision.withheld:
            steered += 1
            first, last = next(iter(machine.tables)), list(machine.tables)[-1]
            every = [Request.of({first: size, last: other}) for size in range(1, 13) for other in (0, 1, 3)]
            assert_not_worse(machine, [*requests, *every], decision.withheld)
    assert steered > 20


@settings(max_examples=250, deadline=None)
@given(hardware(), FILLS, REQUESTS, st.data(), STRATEGIES)
def test_the_fast_prediction_is_the_plain_one(hardware, fills, request, data, wanted):
    state, node = filled(Machine(hardware), fills).state(), hardware.steering_node()
    assume(not isinstance(state, StateUnknown))
    hidden = {resource: data.draw(st.integers(0, (1 << hardware.nodes) - 1)) for resource in hardware.devices}
    strategic = PolicyOptions(
        prefer_closest=hardware.options.prefer_closest, strategy=wanted.strategy, weights=wanted.weights
    )
    forecast = Forecast(node, state, strategic=strategic, budget=Budget(10**6))
    for unit in request.units(hardware.scope):
        demand = demand_of(unit, hardware.scope)
        for fast, plain in (
            (forecast.outcome(demand), predict(node, state, unit)),
            (forecast.outcome(demand, hidden), predict(node, state, unit, withheld=hidden)),
            (forecast.wanted(demand), predict(node, state, unit, options=strategic)),
        ):
            assert (fast.admitted, fast.mask, fast.preferred, dict(fast.aligned)) == (
                plain.admitted,
                plain.mask,
                plain.preferred,
                dict(plain.aligned),
            )


def has_memory_groups(state):
    return any(len(node.cells) > 1 for node in state.memory.machine.nodes.values())


@settings(max_examples=100, deadline=None)
@given(hardware(), FILLS, REQUESTS)
def test_the_prediction_is_what_the_managers_then_do(hardware, fills, request):
    machine = filled(Machine(hardware), fills)
    state, node = machine.state(), hardware.steering_node()
    assume(not isinstance(state, StateUnknown))
    assume(hardware.policy != PolicyName.BEST_EFFORT or not has_memory_groups(state))
    # The kubelet does not show resources without healthy devices.
    assume(request.total.keys() - {CPU, MEMORY} <= state.devices.keys())
    for unit in request.units(hardware.scope):
        outcome = machine.copy().create("new", unit)
        predicted = predict(node, state, unit)
        assert (predicted.admitted, predicted.reason) == (outcome.admitted, outcome.reason)
        if outcome.admitted:
            assert predicted.mask == list(outcome.affinities.values())[-1].mask


@pytest.mark.parametrize("policy", POLICIES)
def test_a_device_of_two_nodes_counts_for_both(policy):
    hardware = Hardware(devices={GPU: ((0, 1), (0,), (1,))}, policy=policy)
    machine = Machine(hardware)
    machine.create("p", Request.of({GPU: 1}))
    requests = [Request.of({GPU: size}) for size in (1, 2)]
    for known in (requests[:1], requests):
        decision = choose(
            hardware.steering_node(),
            machine.states(),
            known,
            settings=SteeringSettings(strategy=Strategy.LEAST_ALLOCATED),
        )
        assert_not_worse(machine, known, decision.withheld)
    assert mask_of((0, 1)) == 3
