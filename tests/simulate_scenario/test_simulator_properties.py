"""What holds of every run: nothing is given twice, nothing is lost, nothing depends on chance."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numaplace.reading.names import parse_cpu_list
from numaplace.simulate.scenario.load import parse_scenario
from numaplace.simulate.scenario.records import Create, Delete
from numaplace.simulate.simulator.document import run_document, step_document
from numaplace.simulate.simulator.results import Created
from numaplace.simulate.simulator.run import Simulator, simulate

RESOURCES = ("example.com/gpu", "example.com/vf")


@st.composite
def containers(draw, name):
    amounts = {
        "cpu": draw(st.sampled_from([1, 1, 2, 3, 5, "500m"])),
        "memory": f"{draw(st.integers(1, 9))}Gi",
    }
    for resource in RESOURCES:
        if draw(st.booleans()):
            amounts[resource] = draw(st.integers(1, 3))
    return {"name": name, **amounts}


@st.composite
def pods(draw, name):
    pod = {"name": name, "containers": [draw(containers(f"c{n}")) for n in range(draw(st.integers(1, 2)))]}
    if draw(st.booleans()):
        init = draw(containers("i"))
        if draw(st.booleans()):
            init["restartPolicy"] = "Always"
        pod["initContainers"] = [init]
    return pod


@st.composite
def scenarios(draw):
    nodes = draw(st.integers(1, 3))
    steps, live = [], []
    for number in range(draw(st.integers(1, 8))):
        if live and draw(st.integers(0, 3)) == 0:
            steps.append({"delete": live.pop(draw(st.integers(0, len(live) - 1)))})
        else:
            live.append(f"p{number}")
            steps.append({"create": draw(pods(live[-1]))})
    return {
        "node": {
            "numaNodes": [
                {"id": 2 * n, "cpus": f"{n * 6}-{n * 6 + 5}", "memory": "9Gi"} for n in range(nodes)
            ],
            "devices": [
                {"resource": resource, "numa": draw(st.sampled_from([2 * n, 2 * n, None])), "count": 2}
                for resource in RESOURCES
                for n in range(nodes)
            ],
        },
        "kubelet": {
            "topologyManagerPolicy": draw(
                st.sampled_from(["none", "best-effort", "restricted", "single-numa-node"])
            ),
            "topologyManagerScope": draw(st.sampled_from(["container", "pod"])),
            "cpuManagerPolicy": "static",
            "memoryManagerPolicy": "Static",
            "reservedSystemCPUs": "0",
            "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
        },
        "placement": {
            "strategy": draw(st.sampled_from(["most-allocated", "least-allocated"])),
            "enforcement": draw(st.sampled_from(["off", "kubelet", "preferred"])),
        },
        "steps": steps,
    }


def parsed(document):
    return parse_scenario(json.dumps(document), source="generated")


@settings(max_examples=60, deadline=None)
@given(scenarios())
def test_never_more_than_there_is_and_nothing_twice(document):
    simulator = Simulator(parsed(document))
    living = {}
    for number, step in enumerate(parsed(document).steps):
        result = simulator.play(step, number=number)
        if isinstance(step, Delete):
            living.pop(step.name)
        elif isinstance(result, Created):
            living[result.pod] = step_document(result)
        for node in simulator.node.use():
            for resource, allocated in node.allocated.items():
                assert 0 <= allocated <= node.allocatable[resource]
        admitted = [one for one in living.values() if one["admitted"]]
        _assert_disjoint(admitted)


def _assert_disjoint(steps):
    """No CPU and no device is held by two pods, or by two containers that run at the same time."""
    cpus, devices = Counter(), Counter()
    for step in steps:
        cpus.update({cpu for one in step["containers"] for cpu in parse_cpu_list(one["cpus"])})
        devices.update(
            {
                (resource, id_)
                for one in step["containers"]
                for resource, held in one["devices"].items()
                for id_ in held["ids"]
            }
        )
        apps = [one for one in step["containers"] if one["name"].startswith("c")]
        assert sum(len(parse_cpu_list(one["cpus"])) for one in apps) == len(
            {cpu for one in apps for cpu in parse_cpu_list(one["cpus"])}
        )
    assert all(count == 1 for count in (*cpus.values(), *devices.values()))


def _comparable(simulator):
    """Each node's use, and the sum of its memory: within a group bytes may return to another node."""
    use = simulator.node.use()
    exact = [{name: number for name, number in node.allocated.items() if name != "memory"} for node in use]
    return exact, sum(node.allocated["memory"] for node in use)


@settings(max_examples=40, deadline=None)
@given(scenarios())
def test_a_refused_pod_changes_nothing_and_all_deleted_is_as_new(document):
    scenario = parsed(document)
    simulator = Simulator(scenario)
    new = simulator.node.use()
    for number, step in enumerate(scenario.steps):
        before = _comparable(simulator)
        result = simulator.play(step, number=number)
        if isinstance(result, Created) and not result.admitted:
            assert _comparable(simulator) == before
    for pod in tuple(simulator.node.kubelet.pods.values()):
        simulator.play(Delete(pod.name), number=99)
    after = simulator.node.use()
    if any(isinstance(step, Create) and step.pod.init_containers for step in scenario.steps):
        # The kubelet's own account: memory that an init container left to its pod may never come free again.
        after, new = (
            [replace(node, allocated=_without_memory(node)) for node in use] for use in (after, new)
        )
    assert list(after) == list(new)


def _without_memory(node):
    return {name: amount for name, amount in node.allocated.items() if name != "memory"}


@settings(max_examples=30, deadline=None)
@given(scenarios())
def test_the_same_scenario_gives_the_same_outcome(document):
    assert run_document(simulate(parsed(document))) == run_document(simulate(parsed(document)))


@settings(max_examples=40, deadline=None)
@given(scenarios())
def test_what_is_admitted_gets_what_it_asks_for(document):
    specs = {step["create"]["name"]: step["create"] for step in document["steps"] if "create" in step}
    policy = document["kubelet"]["topologyManagerPolicy"]
    for step in run_document(simulate(parsed(document)))["steps"]:
        if not step.get("admitted"):
            continue
        spec = {
            one["name"]: one
            for kind in ("initContainers", "containers")
            for one in specs[step["pod"]].get(kind, [])
        }
        for container in step["containers"]:
            asked = spec[container["name"]]
            for resource in RESOURCES:
                held = container["devices"].get(resource, {"ids": []})["ids"]
                assert len(held) == asked.get(resource, 0)
            whole = isinstance(asked["cpu"], int)
            assert len(parse_cpu_list(container["cpus"])) == (asked["cpu"] if whole else 0)
            if policy == "single-numa-node" and container["affinity"] is not None:
                assert len(container["affinity"]) == 1
                assert container["preferred"]


@pytest.mark.parametrize("enforcement", ["off", "kubelet", "preferred"])
def test_progress_is_told_of_every_step(enforcement):
    document = {
        "node": {"numaNodes": [{"id": 0, "cpus": "0-3"}]},
        "placement": {"enforcement": enforcement},
        "steps": [{"create": {"name": f"p{n}", "containers": [{"name": "c"}]}} for n in range(3)],
    }
    done = []
    simulate(parsed(document), progress=done.append)
    assert done == [1, 2, 3]
