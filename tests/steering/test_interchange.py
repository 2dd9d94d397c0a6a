"""With several requests topology is withheld only where it matters to no later pod where a pod goes."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from effort import in_chunks, part
from numaplace.engine.options import PolicyName, PolicyOptions
from numaplace.engine.weights import parse_weights
from numaplace.managers.admission import Scope
from numaplace.managers.cpu.options import CpuPolicyOptions
from numaplace.model.names import Strategy
from numaplace.prediction.request import Request
from numaplace.steering.choose import SteeringSettings, choose
from numaplace.steering.decision import Reason
from steering_machine import GPU, NIC, VF, Hardware, Machine, per_node, pick, request

LEAST, MOST = Strategy.LEAST_ALLOCATED, Strategy.MOST_ALLOCATED
POLICIES = [PolicyName.BEST_EFFORT, PolicyName.RESTRICTED, PolicyName.SINGLE_NUMA_NODE]
FOUR = Hardware(4, (16,) * 4, (32,) * 4, {GPU: per_node(4, 4, 4, 4), VF: per_node(8, 8, 8, 8)})


def reasons(hardware, requests, *, strategy=LEAST):
    machine = Machine(hardware)
    machine.create("first", requests[0])
    settings = SteeringSettings(strategy=strategy)
    decision = choose(hardware.steering_node(), machine.states(), requests, settings=settings)
    return {one.reason for one in decision.refusals}


@pytest.mark.parametrize(
    "requests",
    [
        # One GPU each, and four times the CPUs and the memory of the largest are there.
        [request(gpu=1, cpu=cpu, memory=memory) for cpu, memory in ((1, 1), (2, 8), (4, 3))],
        [request(gpu=2, cpu=8), request(gpu=2, cpu=3), request(gpu=2)],
        [request(gpu=1, vf=1), request(gpu=1, vf=2), request(gpu=1)],
        # The CPUs count here: four pods to a node, and GPUs for all of them.
        [request(gpu=1, cpu=4), request(vf=1, cpu=4), request(gpu=1, vf=2, cpu=4)],
        # Requests that ask for nothing in common do not compete.
        [request(gpu=2), request(vf=1)],
        [request(gpu=2), request(vf=1, cpu=3)],
    ],
)
def test_requests_that_are_as_good_as_one(requests):
    assert Reason.SEVERAL_SIZES not in reasons(FOUR, requests)


@pytest.mark.parametrize(
    "requests",
    [
        [request(gpu=1), request(gpu=2)],
        [request(gpu=1, cpu=2), request(gpu=1, cpu=5)],  # of the second three fit, of the first four
        [request(gpu=1, memory=8), request(gpu=1, memory=9)],
        [request(gpu=1, vf=1), request(gpu=1, vf=3)],
        [request(gpu=1, cpu=2), request(cpu=2)],  # any number of pods without a GPU may come
        [request(gpu=1), request(vf=1), request(gpu=1, vf=2)],  # joined by the third
        [request(gpu=5), request(gpu=5, vf=1)],  # more than a node has
    ],
)
def test_requests_that_take_room_from_each_other(requests):
    assert reasons(FOUR, requests) == {Reason.SEVERAL_SIZES}
    assert reasons(FOUR, requests, strategy=MOST) == {Reason.SEVERAL_SIZES}


def test_what_others_hold_counts():
    # Four slots of up to four CPUs fit sixteen; two CPUs of node 0 are held by a pod of another request.
    requests = [request(gpu=1, cpu=4), request(gpu=1, cpu=3)]
    machine = Machine(FOUR)
    for number, one in enumerate([requests[0], request(cpu=2, memory=1)]):
        machine.create(f"p{number}", one)
    settings = SteeringSettings(strategy=LEAST)
    decision = choose(FOUR.steering_node(), machine.states(), requests, settings=settings)
    assert [one.reason for one in decision.refusals] == [Reason.SEVERAL_SIZES]


@pytest.mark.parametrize("policy", POLICIES)
def test_what_others_hold_is_not_there_when_a_small_pod_goes(policy):
    """As long as a pod without a VF is on node 0 it does not show that a stranger holds one of the VFs."""
    hardware = Hardware(devices={GPU: per_node(2, 2), VF: per_node(2, 2)}, policy=policy)
    node, requests = hardware.steering_node(), [request(gpu=1), request(gpu=1, vf=1)]
    machine = Machine(hardware)
    machine.create("stranger", request(vf=1))
    for name, one in (("a", 0), ("b", 0), ("gone", 0), ("c", 1), ("d", 1), ("e", 1)):
        if name == "gone":
            machine.delete("a")
            continue
        decision = choose(node, machine.states(), requests, settings=SteeringSettings(strategy=LEAST))
        assert machine.create(name, requests[one], withheld=decision.withheld).admitted
        assert machine.on_one_node(name)


@pytest.mark.parametrize("stranger", [request(vf=1), request(gpu=3), request(gpu=3, vf=1)])
def test_what_others_hold_makes_no_room(stranger):
    """Four slots of three GPUs, and a VF more for each pod, are more than the VFs of node 1."""
    hardware = Hardware(devices={GPU: per_node(6, 6), VF: per_node(6, 5)})
    requests = [Request.of({VF: 1}, {GPU: 3, VF: 1})]
    for before in ([], [stranger]):
        machine = Machine(hardware)
        for number, one in enumerate([*requests, *before]):
            machine.create(f"p{number}", one)
        settings = SteeringSettings(strategy=LEAST)
        decision = choose(hardware.steering_node(), machine.states(), requests, settings=settings)
        assert {one.reason for one in decision.refusals} == {Reason.SEVERAL_SIZES}


@pytest.mark.parametrize("scope", list(Scope))
def test_what_the_known_requests_hold_does_not_count_against_them(scope):
    """Exactly four times the CPUs of the largest are there, and pods of all sizes."""
    hardware, machine = replace(FOUR, scope=scope), Machine(replace(FOUR, scope=scope))
    requests = [request(gpu=1, cpu=cpu, memory=2) for cpu in (1, 2, 4)]
    settings = SteeringSettings(strategy=LEAST)
    for number in range(12):
        decision = choose(hardware.steering_node(), machine.states(), requests, settings=settings)
        assert Reason.SEVERAL_SIZES not in {one.reason for one in decision.refusals}
        machine.create(f"p{number}", requests[number % 3], withheld=decision.withheld)


def test_devices_of_two_nodes_are_slots_of_neither():
    hardware = replace(FOUR, devices={GPU: (*per_node(4, 4, 4, 4), (0, 1))})
    assert reasons(hardware, [request(gpu=1), request(gpu=1, cpu=1)]) == {Reason.SEVERAL_SIZES}


def aligned(hardware, one, count, *, before=(), steered):
    """Return which of so many pods of a request are admitted on as few NUMA nodes as can be."""
    node, machine, found = hardware.steering_node(), Machine(hardware), []
    for number, other in enumerate(before):
        machine.create(f"b{number}", other)
    for number in range(count):
        settings = SteeringSettings(strategy=LEAST if steered else Strategy.NONE)
        withheld = choose(node, machine.states(), [one], settings=settings).withheld
        outcome = machine.create(f"p{number}", one, withheld=withheld)
        found.append(outcome.admitted and outcome.affinities["c0"].preferred)
    return found


@pytest.mark.parametrize("policy", [PolicyName.BEST_EFFORT, PolicyName.RESTRICTED])
def test_one_request_that_takes_parts_of_several_nodes(policy):
    """Three pairs of nodes would leave one device on each second node; lowest ids first leaves nothing."""
    hardware = Hardware(6, (), (), {GPU: per_node(2, 2, 2, 2, 2, 2)}, policy=policy)
    one = request(gpu=3)
    assert aligned(hardware, one, 5, steered=False) == [True] * 4 + [False]
    assert aligned(hardware, one, 5, steered=True) == [True] * 4 + [False]
    assert reasons(hardware, [one]) == {Reason.SEVERAL_SIZES}


@pytest.mark.parametrize("policy", POLICIES)
def test_requests_that_compete_through_a_third_one(policy):
    """Where the GPU pods leave CPUs decides which VFs are left for those that want both."""
    hardware = Hardware(2, (4, 4), (), {GPU: per_node(4, 4), VF: per_node(2, 2)}, policy=policy)
    gpu, both, vf = request(gpu=1, cpu=2, memory=1), request(vf=1, cpu=2, memory=1), request(vf=1)
    moves = [(False, 0.0, one) for one in (gpu, gpu, vf, vf, both, both)]
    for settings in (None, SteeringSettings(strategy=LEAST)):
        fates, _ = played(hardware, [gpu, both, vf], moves, settings)
        assert fates == [(True, True)] * 6
    assert reasons(hardware, [gpu, both, vf]) == {Reason.SEVERAL_SIZES}
    assert Reason.SEVERAL_SIZES not in reasons(hardware, [gpu, both])


@pytest.mark.parametrize("policy", POLICIES)
def test_one_request_with_devices_of_two_nodes(policy):
    """The VF of both nodes is the only one of node 0: on node 1 it would be another one's to take."""
    devices = {GPU: per_node(4, 1), VF: ((0, 1), (1,))}
    hardware, both = Hardware(devices=devices, policy=policy), request(gpu=1, vf=1)
    for steered in (False, True):
        assert aligned(hardware, both, 2, before=[request(gpu=1)], steered=steered) == [True, True]


@pytest.mark.parametrize("policy", POLICIES)
def test_one_device_is_one_slot_whatever_its_nodes(policy):
    hardware = Hardware(devices={VF: (*per_node(2, 2), (0, 1))}, policy=policy)
    assert Reason.SEVERAL_SIZES not in reasons(hardware, [request(vf=1)])


def test_cpus_that_a_socket_shares_are_slots_of_no_node():
    options = CpuPolicyOptions(align_by_socket=True)
    hardware = replace(FOUR, policy=PolicyName.RESTRICTED, cpu_options=options)
    assert Reason.SEVERAL_SIZES not in reasons(hardware, [request(gpu=1, cpu=4)])
    assert Reason.SEVERAL_SIZES in reasons(replace(hardware, nodes_of_a_socket=2), [request(gpu=1, cpu=4)])


def test_what_best_effort_could_split_is_no_slot():
    # Three GPUs of four leave one on each node, and with three nodes best-effort admits a pod on them.
    requests = [request(gpu=3), request(gpu=3, cpu=1)]
    wide = replace(FOUR, policy=PolicyName.BEST_EFFORT)
    narrow = Hardware(2, (16,) * 2, (32,) * 2, {GPU: per_node(4, 4)}, policy=PolicyName.BEST_EFFORT)
    assert Reason.SEVERAL_SIZES in reasons(wide, requests)
    assert Reason.SEVERAL_SIZES not in reasons(narrow, requests)
    assert Reason.SEVERAL_SIZES not in reasons(FOUR, requests)


@pytest.mark.parametrize(("cpus", "steers"), [(1, True), (2, False)])
def test_a_container_without_devices_may_use_the_rest(cpus, steers):
    # 16 pods at most: 12 CPUs of a node's 28 are for its own four, the rest for 16 sidecars, all on it.
    hardware = replace(FOUR, cpus=(28,) * 4)
    main = dict(request(gpu=1, cpu=3, memory=1).total)
    sidecar = dict(request(cpu=cpus, memory=1).total)
    pods = [Request.of(main, sidecar), Request.of(dict(request(gpu=1, cpu=2, memory=1).total))]
    assert (Reason.SEVERAL_SIZES not in reasons(hardware, pods)) is steers
    assert Reason.SEVERAL_SIZES not in reasons(replace(hardware, scope=Scope.POD, cpus=(20,) * 4), pods)


def history(rng, requests, steps):
    """Return creates and deletes; which pods are there to be deleted is left to the player."""
    return [(rng.random() < 0.4, rng.random(), rng.choice(requests)) for _ in range(steps)]


def played(hardware, requests, moves, settings):
    """Return of each pod whether it was admitted and whether it is on one node; and how often was steered."""
    machine, node = Machine(hardware), hardware.steering_node()
    alive, fates, steered = [], [], 0
    for number, (leaves, which, one) in enumerate(moves):
        if leaves and alive:
            machine.delete(alive.pop(int(which * len(alive))))
            continue
        withheld = {}
        if settings is not None:
            withheld = choose(node, machine.states(), requests, settings=settings).withheld
        name = f"p{number}"
        admitted = machine.create(name, one, withheld=withheld).admitted
        fates.append((admitted, admitted and machine.on_one_node(name)))
        steered += bool(withheld)
        if admitted:
            alive.append(name)
    return fates, steered


def generated(rng):
    """Return a node with a like set of NUMA nodes, and requests that fit one of them."""
    nodes, gpus, vfs = rng.choice((2, 2, 3, 4)), rng.choice((2, 4, 6)), rng.choice((2, 4, 8))
    cpus, memory = rng.choice((0, 4, 8, 16)), rng.choice((0, 8, 32))
    hardware = Hardware(
        nodes,
        (cpus,) * nodes if cpus else (),
        (memory,) * nodes if memory else (),
        {GPU: per_node(*[gpus] * nodes), VF: per_node(*[vfs] * nodes), NIC: per_node(*[2] * nodes)},
        policy=rng.choice(POLICIES),
        scope=rng.choice(list(Scope)),
    )
    size = rng.choice((1, 1, 2))

    def one():
        amounts = {"gpu": size if rng.random() < 0.85 else rng.randint(1, gpus)}
        if rng.random() < 0.4:
            amounts["vf"] = rng.choice((1, 1, vfs // gpus or 1, 2))
        if rng.random() < 0.7:
            amounts |= {"cpu": rng.randint(1, max(1, cpus * size // gpus)), "memory": rng.choice((1, 2))}
        return request(**amounts)

    return hardware, list(dict.fromkeys(one() for _ in range(rng.choice((1, 2, 2, 3)))))


@pytest.mark.parametrize("strategy", [LEAST, MOST])
@in_chunks(72, size=24)
def test_all_of_a_history_is_admitted_and_aligned_as_without(strategy, seeds):
    """Not a decision by itself, but all of them together."""
    several = single = 0
    for seed in seeds:
        rng = Random(f"{strategy} {seed}")
        hardware, requests = generated(rng)
        moves = history(rng, requests, 30)
        settings = SteeringSettings(
            strategy=strategy, weights=parse_weights(rng.choice(("", "cpu=0", "example.com/gpu=10")))
        )
        without, _ = played(hardware, requests, moves, None)
        fates, steered = played(hardware, requests, moves, settings)
        assert [one for one, _ in fates] == [one for one, _ in without], seed
        assert sum(aligned for _, aligned in fates) >= sum(aligned for _, aligned in without), seed
        several += bool(steered) and len(requests) > 1
        single += bool(steered) and len(requests) == 1
    assert several > 0
    assert single > 0


def odd(rng):
    """Return a node whose NUMA nodes have parts in common, or requests that take parts of several."""
    nodes, each, cpus = rng.choice((2, 3, 4, 6)), rng.choice((1, 2, 4)), ()
    gpus = [each] * nodes if rng.random() < 0.6 else [rng.choice((1, each, 2 * each)) for _ in range(nodes)]
    devices, options = {GPU: per_node(*gpus), VF: per_node(*[each] * nodes)}, CpuPolicyOptions()
    what = rng.choice(("parts", "devices", "sockets"))
    requests = [request(gpu=1, vf=1)]
    if what == "parts":
        requests = [request(gpu=rng.randint(each, 2 * each))]
    elif what == "devices":
        devices[VF] = tuple(rng.choice(((0, 1), (0,), (1,), (nodes - 1,))) for _ in range(2 * nodes))
    else:
        cpus, options = (rng.choice((4, 6, 8)),) * nodes, CpuPolicyOptions(align_by_socket=True)
        requests = [request(gpu=1, cpu=rng.choice((1, 2, 3)), memory=1) for _ in range(rng.choice((1, 2)))]
    policies = POLICIES if what == "devices" else POLICIES[:2]
    hardware = Hardware(
        nodes, cpus, (), devices, policy=rng.choice(policies), cpu_options=options, nodes_of_a_socket=2
    )
    return hardware, list(dict.fromkeys(requests))


@in_chunks(150, size=50)
def test_all_of_a_history_on_an_odd_machine_is_admitted_as_without(seeds):
    steered = 0
    for seed in seeds:
        rng = Random(seed)
        hardware, requests = odd(rng)
        moves = history(rng, requests, 30)
        settings = SteeringSettings(strategy=rng.choice((LEAST, LEAST, MOST)))
        fates, count = played(hardware, requests, moves, settings)
        if count:
            steered += 1
            without, _ = played(hardware, requests, moves, None)
            assert [one for one, _ in fates] == [one for one, _ in without], seed
    assert steered > 0


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("strategy", [LEAST, MOST])
@pytest.mark.parametrize("weights", ["", "cpu=0,memory=0"])
def test_requests_that_are_as_good_as_one_go_where_the_kep_sends_them(policy, strategy, weights):
    hardware = replace(FOUR, policy=policy)
    requests = [request(gpu=1, cpu=cpu, memory=2) for cpu in (1, 2, 4)]
    settings = SteeringSettings(strategy=strategy, weights=parse_weights(weights))
    scored = PolicyOptions(strategy=strategy, weights=parse_weights(weights))
    moved = 0
    for seed in range(part(6)):
        machine = Machine(hardware)
        for number, (leaves, which, one) in enumerate(history(Random(seed), requests, 50)):
            alive = sorted(machine.kubelet.pods)
            if leaves and alive:
                machine.delete(alive[int(which * len(alive))])
                continue
            decision = choose(hardware.steering_node(), machine.states(), requests, settings=settings)
            wanted = pick(machine.copy(options=scored).create("new", one))
            moved += bool(decision.withheld)
            assert pick(machine.create(f"p{number}", one, withheld=decision.withheld)) == wanted
    assert moved > 0
