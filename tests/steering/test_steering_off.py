"""Where nothing may be withheld, nothing is, and the decision says why in data and in words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from numaplace.engine.options import PolicyName, PolicyOptions
from numaplace.model.names import Strategy
from numaplace.model.topology import NumaTopology
from numaplace.prediction.harm import Harm
from numaplace.prediction.state import StateUnknown
from numaplace.steering.choose import SteeringSettings, choose
from numaplace.steering.decision import Reason, Refusal
from numaplace.steering.text import decision_lines, refusal_text
from steering_machine import GPU, VF, Hardware, Machine, per_node, request

SETTINGS = SteeringSettings(strategy=Strategy.LEAST_ALLOCATED)
ALWAYS = replace(SETTINGS, always=True)
HARDWARE = Hardware(2, (8, 8), (16, 16), {GPU: per_node(4, 4), VF: per_node(4, 4)})
ONE = request(gpu=1, cpu=2, memory=1)


def used(hardware=HARDWARE):
    machine = Machine(hardware)
    machine.create("p", ONE)
    return machine


def reasons(decision):
    assert not decision.withheld
    return [refusal.reason for refusal in decision.refusals]


def test_it_steers_here_if_nothing_stands_against_it():
    decision = choose(HARDWARE.steering_node(), used().states(), [ONE], settings=SETTINGS)
    assert decision.withheld == {GPU: 0b1}
    assert decision.refusals == ()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"policy": PolicyName.NONE}, Reason.POLICY_NONE),
        ({"policy": None}, Reason.POLICY_UNKNOWN),
        ({"cpu": None}, Reason.POLICY_UNKNOWN),
        ({"memory": None}, Reason.POLICY_UNKNOWN),
        ({"options": PolicyOptions(strategy=Strategy.LEAST_ALLOCATED)}, Reason.KUBELET_STRATEGY),
        ({"steerable": frozenset()}, Reason.NO_STRATEGY),
        ({"topology": NumaTopology((0,))}, Reason.ONE_NODE),
    ],
)
@pytest.mark.parametrize("requests", [[ONE], []])
def test_a_node_that_cannot_be_steered(change, reason, requests):
    node = replace(HARDWARE.steering_node(), **change)
    assert reasons(choose(node, used().states(), requests, settings=SETTINGS)) == [reason]


def test_without_a_strategy():
    decision = choose(HARDWARE.steering_node(), used().states(), [ONE], settings=SteeringSettings())
    assert reasons(decision) == [Reason.NO_STRATEGY]


def test_an_unknown_state():
    unknown = StateUnknown("the kubelet does not answer")
    decision = choose(HARDWARE.steering_node(), unknown, [ONE], settings=SETTINGS)
    assert reasons(decision) == [Reason.STATE_UNKNOWN]
    assert list(decision_lines(decision)) == [
        "nothing withheld",
        "the node's state is not known: the kubelet does not answer",
    ]


@pytest.mark.parametrize("requests", [[ONE], []])
def test_nothing_to_gain_on_an_empty_node(requests):
    decision = choose(HARDWARE.steering_node(), Machine(HARDWARE).states(), requests, settings=ALWAYS)
    assert reasons(decision) == [Reason.NOTHING_TO_GAIN]


def test_requests_that_ask_for_nothing_of_ours():
    decision = choose(
        HARDWARE.steering_node(), used().states(), [request(cpu=1, memory=1)], settings=SETTINGS
    )
    assert reasons(decision) == [Reason.NOTHING_STEERABLE]


def test_too_many_predictions():
    settings = replace(ALWAYS, max_predictions=3)
    decision = choose(HARDWARE.steering_node(), used().states(), [ONE, request(gpu=2)], settings=settings)
    assert reasons(decision) == [Reason.TOO_MANY]


def test_resources_of_different_strategies_in_one_request():
    settings = replace(SETTINGS, strategies={VF: Strategy.MOST_ALLOCATED})
    both = request(gpu=1, vf=1)
    decision = choose(HARDWARE.steering_node(), used().states(), [both], settings=settings)
    assert reasons(decision) == [Reason.MIXED_STRATEGIES]
    assert reasons(choose(HARDWARE.steering_node(), used().states(), [], settings=settings)) == [
        Reason.MIXED_STRATEGIES
    ]


def test_two_sizes_that_are_wanted_on_different_nodes():
    # By GPUs alone node 1 is wanted, but the larger one finds its CPUs on node 0 only.
    machine = Machine(HARDWARE)
    machine.create("a", request(gpu=1))
    machine.create("b", request(vf=1, cpu=6, memory=1), withheld={VF: 0b1})
    small, large = request(gpu=1), request(gpu=1, cpu=8, memory=1)
    decision = choose(HARDWARE.steering_node(), machine.states(), [small, large], settings=ALWAYS)
    assert reasons(decision) == [Reason.CONFLICT]
    assert {decision.refusals[0].request, decision.refusals[0].other} == {small, large}


@pytest.mark.parametrize("strategy", [Strategy.LEAST_ALLOCATED, Strategy.MOST_ALLOCATED])
def test_unknown_requests_may_be_of_several_sizes(strategy):
    settings = replace(SETTINGS, strategy=strategy)
    decision = choose(HARDWARE.steering_node(), used().states(), [], settings=settings)
    assert reasons(decision) == [Reason.REQUESTS_UNKNOWN]


def test_several_sizes_in_words():
    requests = [request(gpu=2), request(gpu=1)]
    decision = choose(HARDWARE.steering_node(), used().states(), requests, settings=SETTINGS)
    assert list(decision_lines(decision)) == [
        "nothing withheld",
        "example.com/gpu: several sizes, {example.com/gpu: 1} and {example.com/gpu: 2}: where one goes "
        "decides what else fits",
    ]


@pytest.mark.parametrize("policy", [PolicyName.BEST_EFFORT, PolicyName.RESTRICTED])
def test_unknown_requests_that_may_span_nodes(policy):
    hardware = replace(HARDWARE, policy=policy)
    decision = choose(hardware.steering_node(), used(hardware).states(), [], settings=ALWAYS)
    assert reasons(decision) == [Reason.MAY_SPAN]


def test_unknown_requests_without_a_node_that_is_best_in_everything():
    machine = used()
    machine.create("q", request(vf=1), withheld={VF: 0b1})
    decision = choose(HARDWARE.steering_node(), machine.states(), [], settings=ALWAYS)
    assert reasons(decision) == [Reason.NOT_DOMINANT]


def test_every_reason_has_words():
    for reason in Reason:
        for harm in (None, *Harm):
            refusal = Refusal(
                reason, frozenset({GPU}), request=ONE, other=ONE, harm=harm, mask=2, what="so it is"
            )
            assert refusal_text(refusal).startswith("example.com/gpu: ")


def test_a_decision_in_words():
    decision = choose(HARDWARE.steering_node(), used().states(), [ONE], settings=SETTINGS)
    assert list(decision_lines(decision)) == [
        "example.com/gpu: topology of free devices withheld on NUMA 0",
        "{cpu: 2, example.com/gpu: 1, memory: 1Gi}: NUMA 1 "
        "(without steering NUMA 0; NUMA 1 scores 1, NUMA 0 18)",
    ]


def test_equal_arguments_give_equal_decisions():
    node, states, requests = HARDWARE.steering_node(), used().states(), [ONE, request(gpu=2, vf=1)]
    first = choose(node, states, requests, settings=SETTINGS)
    assert choose(node, states, requests, settings=SETTINGS) == first
