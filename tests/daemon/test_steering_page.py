"""The page of steering: what a decision looks like on it, and that doctor and inspect read the same."""

from __future__ import annotations

import json

from numaplace.config.schema import SteeringMode
from numaplace.daemon.steering.kubelet_probe import KnownKubelet
from numaplace.daemon.steering.page import SteeringView, hidden_nodes, steering_document
from numaplace.daemon.steering.status import SteeringStatus
from numaplace.doctor.steering_page import WithheldFact, read_steering
from numaplace.kubelet.config.read import KubeletSettings
from numaplace.model.device import Device
from numaplace.model.names import DeviceId, Strategy
from numaplace.steering.choose import SteeringSettings, choose
from numaplace.steering.decision import Reason, Refusal, SteeringDecision
from steering.steering_machine import GPU, VF, Hardware, Machine, per_node, request

KNOWN = KnownKubelet(KubeletSettings("restricted"), "file /var/lib/kubelet/config.yaml")
ONE = request(gpu=1, cpu=2, memory=1)


def decided() -> SteeringDecision:
    machine = Machine(Hardware(2, (8, 8), (16, 16), {GPU: per_node(4, 4), VF: per_node(4, 4)}))
    machine.create("p", ONE)
    settings = SteeringSettings(strategy=Strategy.LEAST_ALLOCATED)
    return choose(machine.hardware.steering_node(), machine.states(), [ONE], settings=settings)


def devices(*nodes: tuple[int, ...]) -> list[Device]:
    return [Device(DeviceId(f"d{number}"), of_device) for number, of_device in enumerate(nodes)]


def test_what_the_kubelet_is_not_told() -> None:
    real = devices((0,), (0, 1), (), (1,))
    published = devices((), (), (), (1,))
    assert hidden_nodes(real, published) == {"d0": (0,), "d1": (0, 1)}
    assert hidden_nodes([*real, Device(DeviceId("new"), (1,))], published).keys() == {"d0", "d1"}


def test_a_decision_on_the_page() -> None:
    status = SteeringStatus(KNOWN, decided(), None, 2, "declared")
    view = SteeringView(SteeringMode.AUTO, status, {GPU: {DeviceId("g1"): (0,), DeviceId("g2"): (0,)}})
    document = steering_document(view)
    assert document["withheld"] == [
        {
            "resource": GPU,
            "numaNodes": [0],
            "devices": [{"id": "g1", "numaNodes": [0]}, {"id": "g2", "numaNodes": [0]}],
        }
    ]
    (one,) = document["requests"]
    nodes = [one[outcome]["numaNodes"] for outcome in ("stock", "wanted", "steered")]
    assert nodes == [[0], [1], [1]]
    assert one["containers"] == [{"cpu": 2, "memory": 2**30, GPU: 1}]
    assert document["kubelet"]["policy"] == "restricted"
    assert document["breaker"] == {"open": False, "secondsLeft": None, "trips": 2}


def test_it_is_read_as_it_was_written() -> None:
    status = SteeringStatus(KNOWN, decided(), None, 2, "declared")
    view = SteeringView(SteeringMode.AUTO, status, {GPU: {DeviceId("g1"): (0,)}})
    document = steering_document(view)
    fact = read_steering(json.dumps(document))
    assert fact is not None
    assert fact.document == document
    assert fact.withheld == {GPU: WithheldFact((0,), {DeviceId("g1"): (0,)})}
    assert (fact.policy, fact.scope, fact.source) == ("restricted", "container", KNOWN.source)
    assert (fact.open_seconds, fact.trips, fact.requests_source) == (None, 2, "declared")
    assert "without steering NUMA 0" in fact.requests[0]


def test_nothing_withheld_has_a_code_and_a_sentence() -> None:
    unknown = KnownKubelet(problem="kubelet.configFile is not set")
    decision = SteeringDecision(refusals=(Refusal(Reason.POLICY_UNKNOWN, what="it is not known"),))
    status = SteeringStatus(unknown, decision, 12.34, 1, "none")
    fact = read_steering(json.dumps(steering_document(SteeringView(SteeringMode.AUTO, status))))
    assert fact is not None
    assert fact.refusals == (("policy-unknown", "it is not known"),)
    assert (fact.policy, fact.problem, fact.open_seconds) == ("", "kubelet.configFile is not set", 12.3)


def test_steering_that_is_off() -> None:
    fact = read_steering(json.dumps(steering_document(SteeringView(SteeringMode.OFF))))
    assert fact is not None
    assert (fact.mode, fact.withheld, fact.refusals) == ("off", {}, ())


def test_a_page_of_something_else() -> None:
    for text in ("", "ok", "[]", "{}", '{"mode": 3}', '{"mode": "auto", "withheld": [{}]}'):
        assert read_steering(text) is None
    assert read_steering('{"mode": "auto", "new": 1}') is not None
