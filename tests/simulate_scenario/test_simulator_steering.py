"""Steering in the simulator: never worse than without, the strategy followed, and always a reason."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from numaplace.cli.console import Console
from numaplace.cli.main import main
from numaplace.managers.device_manager import PodUid
from numaplace.model.names import CPU
from numaplace.simulate.scenario.load import parse_scenario
from numaplace.simulate.scenario.records import Create
from numaplace.simulate.simulator.document import run_document, step_document
from numaplace.simulate.simulator.results import Created
from numaplace.simulate.simulator.run import Simulator, simulate

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "scenario-steering.yaml"
GPU, VF = "example.com/gpu", "example.com/vf"
REQUESTS = [
    {GPU: 1},
    {GPU: 3},
    {VF: 2},
    {GPU: 1, "cpu": 2, "memory": "1Gi"},
    {GPU: 2, "cpu": 3, "memory": "4Gi"},
    {VF: 1, "cpu": 1, "memory": "1Gi"},
    {GPU: 1, VF: 1, "cpu": 1, "memory": "2Gi"},
    {"cpu": 4, "memory": "2Gi"},
]


@st.composite
def scenarios(draw):
    """A node, and pods of declared requests that come and go; under scope container with up to two."""
    nodes = draw(st.integers(2, 4))
    declared = draw(st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=4, unique_by=str))
    scope = draw(st.sampled_from(["container", "pod"]))
    counts = st.lists(st.integers(1, 4), min_size=nodes, max_size=nodes)
    devices = {GPU: draw(counts), VF: draw(counts)}
    shares = [
        {"numa": n, resource: draw(st.integers(0, count))}
        for resource, counts in devices.items()
        for n, count in enumerate(counts)
    ]
    steps, live = [], []
    for number in range(draw(st.integers(2, 14))):
        if live and draw(st.integers(0, 3)) == 0:
            steps.append({"delete": live.pop(draw(st.integers(0, len(live) - 1)))})
            continue
        live.append(f"p{number}")
        chosen = [draw(st.sampled_from(declared))]
        if scope == "container" and "cpu" in chosen[0] and draw(st.booleans()):
            chosen += [one for one in [draw(st.sampled_from(declared))] if "cpu" in one]
        containers = [{"name": f"c{n}", **one} for n, one in enumerate(chosen)]
        steps.append({"create": {"name": live[-1], "containers": containers}})
        if draw(st.integers(0, 5)) == 0:
            healthy = draw(st.sampled_from(["healthy", "unhealthy"]))
            steps.append({healthy: {"resource": GPU, "ids": ["gpu-0-0"]}})
    return {
        "node": {
            "numaNodes": [{"id": n, "cpus": f"{n * 6}-{n * 6 + 5}", "memory": "9Gi"} for n in range(nodes)],
            "devices": [
                {"resource": resource, "numa": n, "count": count}
                for resource, counts in devices.items()
                for n, count in enumerate(counts)
            ],
        },
        "kubelet": {
            "topologyManagerPolicy": draw(
                st.sampled_from(["best-effort", "restricted", "single-numa-node", "single-numa-node"])
            ),
            "topologyManagerScope": scope,
            "cpuManagerPolicy": "static",
            "memoryManagerPolicy": draw(st.sampled_from(["None", "Static"])),
            "reservedSystemCPUs": ",".join(str(n * 6) for n in range(nodes)),
            "reservedMemory": [{"numaNode": n, "limits": {"memory": "1Gi"}} for n in range(nodes)],
        },
        "placement": {
            "strategy": draw(st.sampled_from(["most-allocated", "least-allocated"])),
            "weights": draw(st.sampled_from(["", "cpu=0,memory=0", f"{GPU}=10"])),
            "enforcement": "steering",
            "steering": {
                "requests": draw(st.sampled_from([declared, declared, []])),
                "mode": draw(st.sampled_from(["auto", "always", "always"])),
            },
        },
        "allocated": draw(st.sampled_from([shares, shares, []])),
        "steps": steps,
    }


def parsed(document):
    return parse_scenario(json.dumps(document), source="generated")


def stock_twin(simulator, document):
    """Return the same node in the same state, with nobody to apply a strategy."""
    twin = Simulator(parsed({**document, "placement": {"enforcement": "off"}}))
    node, other = simulator.node, twin.node
    other.cpu.state, other.memory.state = node.cpu.state, node.memory.state
    for resource in node.devices.resources:
        other.devices.publish(resource, node.hardware(resource).values())
    for uid, pod in node.kubelet.pods.items():
        other.kubelet.devices.active.add(uid)
        for container in pod.in_order:
            for resource, held in node.devices.held(uid, container.name).items():
                nodes = {id_: node.nodes_of(resource, id_) for id_ in held}
                other.devices.adopt(PodUid(uid), container.name, resource=resource, nodes=nodes)
    return twin


@settings(max_examples=examples(150))
@given(scenarios())
def test_steering_admits_exactly_what_the_kubelet_admits_without_it(document):
    """From the same state each single decision; what a container before it got may differ."""
    scenario = parsed(document)
    simulator = Simulator(scenario)
    declared = bool(document["placement"]["steering"]["requests"])
    for number, step in enumerate(scenario.steps):
        single = isinstance(step, Create) and len(step.pod.containers) == 1
        # Where nothing is declared only the first pod is covered: the others may have a request not seen yet.
        alone = (
            stock_twin(simulator, document).play(step, number=number)
            if single and (declared or number == 0)
            else None
        )
        steered = simulator.play(step, number=number)
        if not isinstance(alone, Created) or not isinstance(steered, Created):
            continue
        assert (steered.admitted, steered.reason) == (alone.admitted, alone.reason)
        if alone.admitted:
            mine, without = steered.containers[0], alone.containers[0]
            assert _width(mine.affinity) <= _width(without.affinity)
            assert mine.preferred >= without.preferred


def _width(mask):
    return 99 if mask is None else mask.bit_count()


@settings(max_examples=examples(60))
@given(scenarios())
def test_what_is_not_withheld_has_a_reason_and_the_prediction_holds(document):
    for step in simulate(parsed(document)).steps:
        if not isinstance(step, Created):
            continue
        for one in step.steering:
            decision = one.decision
            assert decision.withheld or decision.refusals
            container = next((c for c in step.containers if c.name == one.container), None)
            if container is None or not step.admitted:
                continue
            got = _amounts(container)
            for look in decision.requests:
                if dict(look.request.total) == got:
                    assert look.steered.mask == container.affinity


def _amounts(container):
    """What an admitted container got is what it asked for."""
    amounts = Counter({resource: len(held.ids) for resource, held in container.devices.items()})
    amounts.update({CPU: len(container.cpus)} if container.cpus else {})
    for block in container.memory:
        amounts[block.type] += block.size_bytes
    return dict(amounts)


def test_under_policy_none_it_is_the_plugin_that_chooses_and_says_so():
    text = EXAMPLE.read_text().replace("single-numa-node", "none")
    steering = run_document(simulate(parse_scenario(text, source="none")))
    preferred = run_document(
        simulate(parse_scenario(text.replace("enforcement: steering", "enforcement: preferred"), source="p"))
    )
    for one in steering["steps"]:
        told = one.pop("steering")
        assert told["withheld"] == {}
        assert [reason["reason"] for reason in told["reasons"]] == ["topology-manager-policy-none"]
    assert steering == preferred


def test_the_document_says_what_is_withheld_and_what_it_changed():
    step = run_document(simulate(parse_scenario(EXAMPLE.read_text(), source="example")))["steps"][0]
    assert step["steering"] == {
        "container": "main",
        "withheld": {"intel.com/vf": [0]},
        "reasons": [],
        "without": {"admitted": True, "reason": "", "numa": [0]},
        "renewed": [],
    }
    assert step["containers"][0]["devices"]["intel.com/vf"]["numa"] == [1]


def test_the_set_is_renewed_before_the_next_container_of_a_pod():
    scenario = parsed(
        {
            "node": {
                "numaNodes": [{"id": 0, "cpus": "0-7"}, {"id": 1, "cpus": "8-15"}],
                "devices": [{"resource": GPU, "numa": n, "count": 4} for n in (0, 1)],
            },
            "kubelet": {"topologyManagerPolicy": "single-numa-node"},
            "placement": {
                "strategy": "least-allocated",
                "enforcement": "steering",
                "steering": {"requests": [{GPU: 1}]},
            },
            "steps": [
                {"create": {"name": "p", "containers": [{"name": n, GPU: 1} for n in ("a", "b", "c")]}},
            ],
        }
    )
    (created,) = simulate(scenario).steps
    assert [one.affinity for one in created.containers] == [0b01, 0b10, 0b01]
    document = step_document(created)["steering"]
    assert document["withheld"] == {}
    assert [one["container"] for one in document["renewed"]] == ["b", "c"]
    assert document["renewed"][0]["withheld"] == {GPU: [0]}


def test_explain_shows_what_is_withheld(tmp_path):
    file = tmp_path / "s.yaml"
    file.write_text(EXAMPLE.read_text())
    out = io.StringIO()
    assert main(["explain", str(file), "--pod", "upf-2"], Console(out=out, err=io.StringIO(), env={})) == 0
    text = out.getvalue()
    assert "intel.com/vf: topology of free devices withheld on NUMA 0" in text
    assert "without steering it would be NUMA 0" in text
    assert "no: withheld" in text


def test_why_not_is_in_the_table(tmp_path):
    file = tmp_path / "s.yaml"
    file.write_text(EXAMPLE.read_text().replace("mode: always", "mode: auto"))
    out = io.StringIO()
    assert main(["simulate", str(file)], Console(out=out, err=io.StringIO(), env={})) == 0
    assert "not steered: several sizes, {cpu: 2" in " ".join(out.getvalue().split())


@pytest.mark.parametrize("mode", ["auto", "always"])
def test_the_table_does_not_call_the_kubelets_choice_the_only_one(tmp_path, mode):
    """The plugin is offered only what the Topology Manager has chosen."""
    file = tmp_path / "s.yaml"
    file.write_text(EXAMPLE.read_text().replace("mode: always", f"mode: {mode}"))
    out = io.StringIO()
    main(["simulate", str(file)], Console(out=out, err=io.StringIO(), env={}))
    assert "only" not in out.getvalue()
    assert ("lowest-id" in out.getvalue()) is (mode == "auto")


def test_a_plugin_that_does_not_steer_is_written_otherwise(tmp_path):
    file = tmp_path / "s.yaml"
    file.write_text(EXAMPLE.read_text().replace("mode: always", "mode: off"))
    err = io.StringIO()
    assert main(["simulate", str(file)], Console(out=io.StringIO(), err=err, env={})) != 0
    assert "placement.steering.mode" in err.getvalue()
    assert "enforcement: preferred" in err.getvalue()


def test_a_request_that_is_not_declared_may_be_refused_and_the_table_says_so(tmp_path):
    """Where one GPU alone is declared, the only node that holds four is hidden; what is learnt hides none."""
    document = {
        "kubelet": {"topologyManagerPolicy": "single-numa-node"},
        "node": {
            "numaNodes": [{"id": 0}, {"id": 1}],
            "devices": [{"resource": GPU, "numa": n, "count": 8} for n in (0, 1)],
        },
        "allocated": [{"numa": 0, GPU: 3}, {"numa": 1, GPU: 5}],
        "placement": {"strategy": "most-allocated", "enforcement": "steering"},
        "steps": [
            {"create": {"name": name, "containers": [{"name": "c", GPU: count}]}}
            for name, count in (("small", 1), ("also-small", 1), ("large", 4))
        ],
    }
    file = tmp_path / "s.json"
    for requests, refused in (([{GPU: 1}], True), ([{GPU: 1}, {GPU: 4}], False), ([], False)):
        document["placement"]["steering"] = {"requests": requests}
        file.write_text(json.dumps(document))
        out = io.StringIO()
        main(["simulate", str(file)], Console(out=out, err=io.StringIO(), env={}))
        assert ("without steering it would be admitted" in out.getvalue()) is refused


@pytest.mark.parametrize("headroom", [0, 100])
def test_headroom_keeps_steering_off(headroom):
    text = EXAMPLE.read_text().replace("  steering:\n", f"  steering:\n    headroom: {{cpu: {headroom}}}\n")
    step = run_document(simulate(parse_scenario(text, source="s")))["steps"][0]
    assert bool(step["steering"]["withheld"]) is (headroom == 0)
    assert [one["reason"] for one in step["steering"]["reasons"]] == (["headroom"] if headroom else [])
