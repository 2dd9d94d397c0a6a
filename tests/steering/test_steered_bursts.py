"""Bursts of pods on a kubelet that is steered at every grant: nobody comes off worse than without."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numaplace.engine.options import PolicyName
from numaplace.engine.weights import weights_from_mapping
from numaplace.managers.admission import Scope
from numaplace.model.names import CPU, MEMORY, Strategy
from numaplace.prediction.request import Request
from numaplace.steering.choose import SteeringSettings
from numaplace.steering.decision import Reason
from numaplace.steering.triggers import RequestsInForce
from steered_machine import SteeredMachine, aligned
from steering_machine import GIB, GPU, NIC, VF, Hardware, per_node, request


def wanted(strategy=Strategy.LEAST_ALLOCATED, weights=None, *, always=True):
    """Settings that follow the strategy; not only where it cannot matter for anybody."""
    return SteeringSettings(
        strategy=strategy, weights=weights_from_mapping(weights or {CPU: 0, MEMORY: 0}), always=always
    )


def case(seed: int, *, policy: PolicyName, most_containers: int = 2):
    rng = Random(seed)
    nodes = rng.choice((2, 2, 3, 4))
    names = rng.sample((GPU, VF, NIC), rng.choice((1, 2, 2, 3)))
    each = {name: rng.choice((2, 3, 4, 6)) for name in names}
    hardware = Hardware(
        nodes,
        rng.choice(((), (6,) * nodes, (12,) * nodes)),
        rng.choice(((), (12,) * nodes)),
        {name: per_node(*[each[name]] * nodes) for name in names},
        policy=policy,
        scope=rng.choice(list(Scope)),
    )
    requests = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        containers = [
            {name: rng.choice((0, 1, 1, 2)) for name in names}
            | rng.choice(({}, {CPU: 1, MEMORY: GIB}, {CPU: 3, MEMORY: 2 * GIB}))
            for _ in range(rng.choice((1, 1, 1, most_containers)))
        ]
        requests.append(Request.of(*containers))
    requests = [one for one in requests if any(one.containers)]
    return rng, hardware, tuple(requests)


POLICIES = [PolicyName.SINGLE_NUMA_NODE, PolicyName.RESTRICTED, PolicyName.BEST_EFFORT]


@pytest.mark.parametrize("specs", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
def test_no_pod_of_a_burst_comes_off_worse(policy, specs):
    """One container each: where the first one goes decides what room is left for the second."""
    assert bursts(policy, range(30), specs=specs, always=True) > 10


@pytest.mark.parametrize("policy", POLICIES)
def test_no_pod_of_several_containers_comes_off_worse_by_default(policy):
    assert bursts(policy, range(500, 515), specs=False, always=False) > 2


def bursts(policy, seeds, *, specs, always):
    """Compare with a stock kubelet, pod by pod; return how many decisions withheld something.

    Declared requests, no rest between the pods; in half of the runs pods go as well.
    """
    steered = 0
    for seed in seeds:
        rng, hardware, requests = case(seed, policy=policy, most_containers=1 if always else 2)
        strategy = rng.choice((Strategy.LEAST_ALLOCATED, Strategy.MOST_ALLOCATED))
        declared = RequestsInForce(requests, "declared")
        machine = SteeredMachine(hardware, declared, wanted(strategy, always=always), specs=specs)
        for number in range(10 if requests else 0):
            one = rng.choice(requests)
            admitted, is_aligned = machine.stock(f"p{number}", one)
            outcome = machine.admit(f"p{number}", one)
            assert outcome.admitted == admitted, (seed, number)
            assert not is_aligned or aligned(machine, f"p{number}"), (seed, number)
            if seed % 2 and rng.random() < 0.3:
                machine.delete(f"p{rng.randrange(number + 1)}")
                machine.at_rest()
        steered += sum(bool(one.decision.withheld) for one in machine.decisions)
    return steered


def test_one_request_is_spread_without_a_rest():
    hardware = Hardware(4, (8,) * 4, (16,) * 4, {GPU: per_node(4, 4, 4, 4)})
    one = request(gpu=1, cpu=2, memory=2)
    machine = SteeredMachine(hardware, RequestsInForce((one,), "declared"), wanted())
    homes = []
    for number in range(16):
        assert machine.admit(f"p{number}", one).admitted
        homes.append({node for home in machine.homes(f"p{number}") for node in home})
    assert homes == [{number % 4} for number in range(16)]


def test_what_still_has_to_come_keeps_the_container_on_its_node():
    """The GPU is granted first; the VF of the same container must not lose its node before it is granted."""
    hardware = Hardware(2, (), (), {GPU: per_node(4, 4), VF: per_node(4, 4)})
    both = request(gpu=1, vf=1)
    for source in ("declared", "seen"):
        machine = SteeredMachine(hardware, RequestsInForce((both,), source), wanted())
        for number in range(8):
            assert machine.admit(f"p{number}", both).admitted
            assert machine.on_one_node(f"p{number}")
        used = {node for number in range(2) for home in machine.homes(f"p{number}") for node in home}
        assert used == {0, 1}


def test_a_container_of_an_unknown_request_does_not_split():
    """Only GPU pods and VF pods have been seen; then one asks for both."""
    hardware = Hardware(2, (), (), {GPU: per_node(4, 4), VF: per_node(4, 4)})
    seen = RequestsInForce((request(gpu=1), request(vf=1)), "seen")
    for fills in ([], [request(gpu=1)], [request(vf=1)], [request(gpu=1), request(gpu=1), request(vf=1)]):
        machine = SteeredMachine(hardware, seen, wanted())
        for number, one in enumerate(fills):
            machine.admit(f"p{number}", one)
        machine.at_rest()
        exposed = [machine.topology.mask & ~machine.withheld.get(resource, 0) for resource in (GPU, VF)]
        outcome = machine.admit("both", request(gpu=1, vf=1))
        if exposed[0] & exposed[1]:
            assert outcome.admitted
            assert machine.on_one_node("both")


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False), st.sampled_from(["declared", "seen", "none"]), st.booleans())
def test_any_history_of_any_pods_gives_decisions(rng, source, specs):
    """Pods of unknown requests, too: no errors, and a reason for all that is not withheld."""
    _, hardware, requests = case(rng.randrange(10_000), policy=rng.choice(list(PolicyName)))
    known = RequestsInForce(requests if source != "none" else (), source)
    machine = SteeredMachine(hardware, known, wanted(), specs=specs)
    for number in range(8):
        what = rng.choice(("known", "other", "delete", "rest"))
        if what == "delete":
            machine.delete(f"p{rng.randrange(number + 1)}")
        elif what == "rest":
            machine.at_rest()
        else:
            other = request(gpu=rng.choice((0, 1, 5)), vf=rng.choice((0, 1)), cpu=rng.choice((0, 2)))
            machine.admit(f"p{number}", rng.choice(requests) if what == "known" and requests else other)
    for one in machine.decisions:
        assert one.decision.withheld or one.decision.refusals
        if any(refusal.reason is Reason.STATE_UNKNOWN for refusal in one.decision.refusals):
            assert not one.decision.withheld
