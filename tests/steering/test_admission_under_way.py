"""Sets that leave with the answer to Allocate: the container has its devices, CPUs and memory are to come."""

from __future__ import annotations

from random import Random

import pytest
from numaplace.managers.admission import Scope
from numaplace.model.mask import mask_of, width
from numaplace.model.names import Strategy
from numaplace.model.podresources import ContainerUse, PodUse
from numaplace.prediction.state import state_of
from numaplace.steering.admission.holdings import (
    PossibleHoldings,
    kept_nodes,
    may_have_more_containers,
    possible_holdings,
    states_to_come,
)
from numaplace.steering.admission.next_states import next_states
from numaplace.steering.choose import SteeringSettings, choose
from numaplace.steering.decision import Reason
from numaplace.steering.search import Headroom
from steering_machine import GPU, VF, Hardware, Machine, per_node, pick, request

LEAST = SteeringSettings(strategy=Strategy.LEAST_ALLOCATED, always=True)


def at_allocate(machine, name, one):
    """Return what is known when the last device of a new pod has been granted, and where it is."""
    outcome = machine.create(name, one)
    held = {resource: one.total[resource] for resource in machine.tables if resource in one.total}
    return machine.state(devices_only=name), held, mask_of(pick(outcome) or ())


def test_cpus_that_the_container_will_take_are_counted():
    # By devices alone node 1 stays the emptier one; its CPUs are gone once the pod is complete.
    hardware = Hardware(2, (8, 8), (16, 16), {GPU: per_node(4, 16)})
    machine, one = Machine(hardware), request(gpu=1, cpu=8, memory=1)
    node = hardware.steering_node()
    machine.create("p", one, withheld={GPU: 0b1})
    state = machine.state(devices_only="p")
    naive = choose(node, [state], [one], settings=SteeringSettings(strategy=Strategy.MOST_ALLOCATED))
    assert naive.withheld == {GPU: 0b1}
    assert pick(machine.copy().create("q", one, withheld=naive.withheld)) is None
    states = next_states(node, state, {GPU: 1}, mask=0b10, requests=[one])
    decision = choose(node, states, [one], settings=SteeringSettings(strategy=Strategy.MOST_ALLOCATED))
    assert pick(machine.create("q", one, withheld=decision.withheld)) == (0,)


def test_a_completion_is_the_state_that_the_kubelet_reaches():
    hardware = Hardware(2, (8, 8), (16, 16), {GPU: per_node(4, 4), VF: per_node(4, 4)})
    machine, one = Machine(hardware), request(gpu=1, vf=2, cpu=3, memory=5)
    state, _, mask = at_allocate(machine, "p", one)
    (first, *_) = next_states(hardware.steering_node(), state, {GPU: 1, VF: 2}, mask=mask, requests=[one])
    after = machine.state()
    assert first.devices == after.devices
    assert first.cpu.default_bits == after.cpu.default_bits
    assert first.memory.machine == after.memory.machine


def test_devices_that_are_still_to_come_are_counted():
    hardware = Hardware(2, (), (), {GPU: per_node(4, 4), VF: per_node(1, 4)})
    machine, node = Machine(hardware), hardware.steering_node()
    machine.create("p", request(gpu=1))
    states = next_states(node, machine.state(), {GPU: 1}, mask=0b01, requests=[request(gpu=1, vf=1)])
    assert [group.free for group in states[0].devices[VF]] == [0, 4]
    assert states[-1] == machine.state()


def test_what_fits_no_known_request_is_unknown():
    hardware = Hardware(2, (), (), {GPU: per_node(4, 4)})
    machine, node = Machine(hardware), hardware.steering_node()
    assert next_states(node, machine.state(), {GPU: 1}, mask=1, requests=[request(gpu=2)]) == ()
    decision = choose(node, (), [request(gpu=2)], settings=LEAST)
    assert decision.refusals[0].reason is Reason.STATE_UNKNOWN


@pytest.mark.parametrize("first", [GPU, VF])
def test_the_second_grant_of_a_container_changes_no_list(first):
    """What hides the container's node does not matter; but each change is one more list to take in."""
    hardware = Hardware(2, (), (), {GPU: per_node(4, 4), VF: per_node(4, 4)})
    machine, node, both = Machine(hardware), hardware.steering_node(), request(gpu=1, vf=1)
    machine.create("p", both)
    second = VF if first == GPU else GPU
    held = choose(node, machine.states(), [both], settings=LEAST, kept={second: 0b1})
    assert held.withheld == {first: 0b1}
    done = choose(node, machine.states(), [both], settings=LEAST, preferring=held.withheld)
    assert done.withheld == held.withheld


def test_what_was_preferred_is_not_withheld_for_nothing():
    hardware = Hardware(2, (), (), {GPU: per_node(4, 4), VF: per_node(4, 4)})
    machine, node, both = Machine(hardware), hardware.steering_node(), request(gpu=1, vf=1)
    machine.create("p", both)
    before = {GPU: 0b1, VF: 0b11}
    decision = choose(node, machine.states(), [both], settings=LEAST, preferring=before)
    assert sum(map(width, decision.withheld.values())) == 1


def test_nodes_that_an_admission_still_needs_stay_exposed():
    hardware = Hardware(2, (), (), {GPU: per_node(4, 4), VF: per_node(4, 4)})
    machine, node, both = Machine(hardware), hardware.steering_node(), request(gpu=1, vf=1)
    machine.create("p", both)
    kept = {GPU: 0b1}
    assert choose(node, machine.states(), [both], settings=LEAST).withheld == {GPU: 0b1}
    decision = choose(node, machine.states(), [both], settings=LEAST, kept=kept)
    assert decision.withheld == {VF: 0b1}
    decision = choose(node, machine.states(), [both], settings=LEAST, kept={GPU: 0b1, VF: 0b1})
    assert not decision.steers
    assert decision.refusals[0].reason is Reason.UNDER_ADMISSION
    assert choose(node, machine.states(), [], settings=LEAST, kept=kept).refusals[0].reason in (
        Reason.UNDER_ADMISSION,
        Reason.NOT_DOMINANT,
    )


@pytest.mark.parametrize(
    ("held", "units", "later", "kept"),
    [
        ({GPU: 1}, [request(gpu=1)], None, {}),
        ({GPU: 1}, [request(gpu=2)], None, {GPU: 0b1}),
        ({GPU: 1}, [request(gpu=1), request(gpu=2)], None, {GPU: 0b1}),
        ({GPU: 2}, [request(gpu=1), request(gpu=2)], None, {}),
        ({VF: 2}, [request(vf=2), request(vf=1, gpu=1)], None, {GPU: 0b1}),
        ({VF: 1}, [request(vf=1), request(gpu=1)], None, {}),
        ({GPU: 1}, [], None, {GPU: 0b1}),
        ({GPU: 1}, [request(gpu=1)], {GPU: 2}, {GPU: 0b1}),
        ({GPU: 1}, [request(gpu=1)], {GPU: 1, VF: 1}, {VF: 0b1}),
        ({GPU: 1}, [request(gpu=1), request(gpu=2)], {}, {}),
    ],
)
def test_what_an_init_container_hands_on_keeps_its_nodes(held, units, later, kept):
    """Without a spec every grant may be an init container's of any declared unit that has use for it."""
    node = Hardware(2, (), (), {GPU: per_node(4, 4), VF: per_node(4, 4)}).steering_node()
    reading = PossibleHoldings({resource: {0b01: count} for resource, count in held.items()}, 0b01)
    found = kept_nodes(node, [reading], requests=units, withheld={}, certain=True, later=later)
    assert found == kept


def test_a_grant_may_be_given_back():
    """The kubelet frees the devices of a container for which CPUs are lacking after all."""
    hardware = Hardware(2, (8, 8), (16, 16), {GPU: per_node(4, 4)})
    machine, node, one = Machine(hardware), hardware.steering_node(), request(gpu=2, cpu=2, memory=1)
    before = machine.state()
    machine.create("p", one)
    snapshot = machine.snapshot(devices_only="p")
    state = state_of(snapshot, cpu=node.cpu, memory=node.memory)
    found = possible_holdings(snapshot, (), GPU, snapshot.in_use(GPU))
    for requests in ([one], [request(gpu=1)]):
        states = states_to_come(node, state, found, requests=requests)
        assert states[-1].devices == before.devices
        assert all(one.devices != before.devices for one in states[:-1])


@pytest.mark.parametrize(
    ("scope", "containers", "more"),
    [(Scope.POD, [1], False), (Scope.POD, [2], True), (Scope.POD, [], True), (Scope.CONTAINER, [], False)],
)
def test_a_pods_affinity_is_in_use_until_it_is_surely_complete(scope, containers, more):
    node = Hardware(2, (), (), {GPU: per_node(4, 4)}, scope=scope).steering_node()
    able = [
        PodUse("default", f"p{number}", tuple(ContainerUse(f"c{one}") for one in range(count)))
        for number, count in enumerate(containers)
    ]
    assert may_have_more_containers(node, able) is more


def test_unsettled_nodes_are_not_relied_on():
    hardware = Hardware(2, (8, 8), (16, 16), {GPU: per_node(4, 4)})
    machine, node, one = Machine(hardware), hardware.steering_node(), request(gpu=1, cpu=2, memory=1)
    machine.create("p", one)
    snapshot = machine.snapshot(devices_only="p")
    for requests in ([one], []):
        for unsettled, steers in ((0b01, True), (0b10, False)):
            state = state_of(snapshot, cpu=node.cpu, memory=node.memory, unsettled=unsettled)
            decision = choose(node, [state], requests, settings=LEAST)
            assert decision.steers is steers


def test_no_request_comes_off_worse_in_any_state_that_may_come():
    steered = 0
    for seed in range(200):
        rng = Random(seed)
        nodes = rng.choice((2, 3))
        hardware = Hardware(
            nodes,
            (6,) * nodes,
            (12,) * nodes,
            {GPU: per_node(*[4] * nodes), VF: per_node(*[6] * nodes)},
            scope=rng.choice(list(Scope)),
        )
        machine, node = Machine(hardware), hardware.steering_node()
        requests = [
            request(gpu=rng.choice((0, 1, 2)), vf=1, cpu=rng.choice((0, 1, 2, 5)), memory=rng.choice((1, 4)))
            for _ in range(rng.choice((1, 2, 3)))
        ]
        for number in range(rng.randrange(4)):
            machine.create(f"p{number}", rng.choice(requests))
        machine.delete("p0")
        state, held, mask = at_allocate(machine, "new", rng.choice(requests))
        if not mask:
            continue
        states = next_states(node, state, held, mask=mask, requests=requests)
        decision = choose(node, states, requests, settings=LEAST)
        steered += decision.steers
        for one in requests:
            stock = pick(machine.copy().create("next", one))
            now = pick(machine.copy().create("next", one, withheld=decision.withheld))
            assert (now is None) == (stock is None)
    assert steered > 20


@pytest.mark.parametrize(
    ("headroom", "steers"),
    [
        (Headroom(cpus=6), True),
        (Headroom(cpus=7), False),
        (Headroom(0, 15 << 30), True),
        (Headroom(0, 16 << 30), False),
    ],
)
def test_headroom_is_kept_on_the_wanted_node(headroom, steers):
    hardware = Hardware(2, (8, 8), (16, 16), {GPU: per_node(4, 4)})
    machine, one = Machine(hardware), request(gpu=1, cpu=2, memory=1)
    machine.create("p", one)
    settings = SteeringSettings(strategy=Strategy.LEAST_ALLOCATED, headroom=headroom)
    decision = choose(hardware.steering_node(), machine.states(), [one], settings=settings)
    assert decision.steers is steers
    if not steers:
        assert decision.refusals[0].reason is Reason.HEADROOM
