"""What a run gives: the contract's document, each way to enforce a strategy, the initial state."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from numaplace.simulate.scenario.load import load_scenario, parse_scenario
from numaplace.simulate.simulator.document import run_document
from numaplace.simulate.simulator.run import simulate

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "scenario.yaml"
GIB = 1024**3

NODE = """
node:
  numaNodes: [{id: 0, cpus: "0-7", memory: 17Gi}, {id: 2, cpus: "8-15", memory: 17Gi}]
  devices:
    - {resource: nvidia.com/gpu, numa: 0, count: 4}
    - {resource: nvidia.com/gpu, numa: 2, count: 4}
    - {resource: intel.com/vf, numa: 0, count: 4}
    - {resource: intel.com/vf, numa: 2, count: 4}
"""
ALIGNED = """
kubelet:
  topologyManagerPolicy: %s
  cpuManagerPolicy: static
  memoryManagerPolicy: Static
  reservedSystemCPUs: "0,8"
  reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}, {numaNode: 2, limits: {memory: 1Gi}}]
"""


def run(text):
    return run_document(simulate(parse_scenario(text, source="test")))


def containers(document, pod):
    (step,) = [step for step in document["steps"] if step.get("pod") == pod]
    return step["containers"]


def test_the_document():
    """The KEP's first example, in the contract's form."""
    document = run_document(simulate(load_scenario(EXAMPLE)))
    assert document == json.loads(json.dumps(document))
    assert document["steps"][0] == {
        "step": 0,
        "pod": "infer",
        "admitted": True,
        "reason": "",
        "message": "",
        "containers": [
            {
                "name": "main",
                "affinity": [1],
                "preferred": True,
                "structural": [0],
                "decidedBy": "score",
                "candidates": [
                    {"numa": [0], "preferred": True, "score": 31},
                    {"numa": [1], "preferred": True, "score": 66},
                ],
                "cpus": "82-89",
                "memory": [{"type": "memory", "size": 16 * GIB, "numa": [1]}],
                "devices": {"nvidia.com/gpu": {"ids": ["gpu-1-3"], "numa": [1]}},
            }
        ],
    }
    late = document["steps"][2]
    assert (late["admitted"], late["reason"]) == (False, "TopologyAffinityError")
    assert late["containers"][0]["cpus"] == ""
    assert late["containers"][0]["devices"] == {}
    assert document["node"]["numaNodes"][1] == {
        "id": 1,
        "allocatable": {"cpu": 64, "memory": 128 * GIB, "nvidia.com/gpu": 4},
        "allocated": {"cpu": 24, "memory": 48 * GIB, "nvidia.com/gpu": 4},
    }


def test_other_steps_are_in_the_document():
    document = run(
        NODE
        + """
steps:
  - unhealthy: {resource: nvidia.com/gpu, ids: [gpu-0-0, gpu-0-1]}
  - create: {name: p, containers: [{name: c, nvidia.com/gpu: 1}]}
  - healthy: {resource: nvidia.com/gpu, ids: [gpu-0-0]}
  - delete: p
"""
    )
    assert document["steps"][0] == {
        "step": 0,
        "unhealthy": {"resource": "nvidia.com/gpu", "ids": ["gpu-0-0", "gpu-0-1"]},
    }
    assert containers(document, "p")[0]["devices"]["nvidia.com/gpu"]["ids"] == ["gpu-0-2"]
    assert document["steps"][3] == {"step": 3, "delete": "p"}
    assert [one["allocatable"]["nvidia.com/gpu"] for one in document["node"]["numaNodes"]] == [3, 4]


def test_no_preference_is_null_under_single_numa_node():
    document = run(
        NODE + ALIGNED % "single-numa-node" + "steps: [{create: {name: p, containers: [{name: c}]}}]"
    )
    (container,) = containers(document, "p")
    assert container["affinity"] is None
    assert container["structural"] is None


@pytest.mark.parametrize("strategy", ["most-allocated", "least-allocated"])
def test_off_is_the_kubelet_alone(strategy):
    text = NODE + ALIGNED % "restricted" + "allocated: [{numa: 0, cpu: 2}]\n"
    text += "steps: [{create: {name: p, containers: [{name: c, cpu: 2, memory: 1Gi, nvidia.com/gpu: 1}]}}]\n"
    alone = run(text)
    assert run(text + f"placement: {{strategy: {strategy}, enforcement: off}}") == alone
    (container,) = containers(alone, "p")
    assert (container["affinity"], container["decidedBy"]) == ([0], "lowest-id")


def test_a_strategy_in_the_kubelets_own_options_needs_its_gate_and_works():
    text = (NODE + ALIGNED % "restricted").replace(
        "  cpuManagerPolicy",
        "  topologyManagerPolicyOptions: {numa-allocation-strategy: least-allocated}\n"
        "  featureGates: {TopologyManagerPolicyAlphaOptions: true}\n  cpuManagerPolicy",
    )
    text += "allocated: [{numa: 0, cpu: 4}]\n"
    text += "steps: [{create: {name: p, containers: [{name: c, cpu: 2, memory: 1Gi}]}}]"
    (container,) = containers(run(text), "p")
    assert (container["affinity"], container["decidedBy"]) == ([2], "score")


def test_preferred_keeps_the_devices_of_a_container_together_under_policy_none():
    text = (
        NODE
        + """
placement: {strategy: most-allocated, weights: "nvidia.com/gpu=1,intel.com/vf=0", enforcement: preferred}
allocated: [{numa: 2, nvidia.com/gpu: 2}, {numa: 0, intel.com/vf: 3}]
steps:
  - create: {name: p, containers: [{name: c, nvidia.com/gpu: 2, intel.com/vf: 1}]}
  - create: {name: q, containers: [{name: c, nvidia.com/gpu: 1}]}
"""
    )
    document = run(text)
    (container,) = containers(document, "p")
    assert container["affinity"] is None
    assert container["devices"]["intel.com/vf"]["numa"] == container["devices"]["nvidia.com/gpu"]["numa"]
    (other,) = containers(document, "q")
    assert other["decidedBy"] in ("score", "only-candidate")


def test_preferred_chooses_inside_the_topology_managers_mask():
    text = NODE + ALIGNED % "restricted" + "placement: {strategy: least-allocated, enforcement: preferred}\n"
    text += "allocated: [{numa: 0, nvidia.com/gpu: 2, cpu: 3}]\n"
    text += "steps: [{create: {name: p, containers: [{name: c, cpu: 2, memory: 1Gi, nvidia.com/gpu: 1}]}}]"
    (container,) = containers(run(text), "p")
    assert container["affinity"] == [0]
    assert container["devices"]["nvidia.com/gpu"]["numa"] == [0]


def test_a_device_that_was_just_freed_is_taken_last():
    text = (
        NODE
        + """
placement: {strategy: most-allocated, enforcement: preferred}
steps:
  - create: {name: a, containers: [{name: c, nvidia.com/gpu: 1}]}
  - create: {name: b, containers: [{name: c, nvidia.com/gpu: 1}]}
  - delete: a
  - create: {name: c, containers: [{name: c, nvidia.com/gpu: 1}]}
"""
    )
    ids = [containers(run(text), pod)[0]["devices"]["nvidia.com/gpu"]["ids"] for pod in "abc"]
    assert ids == [["gpu-0-0"], ["gpu-0-1"], ["gpu-0-2"]]


def test_deleting_a_pod_that_was_refused_changes_nothing():
    text = NODE + ALIGNED % "single-numa-node"
    text += "steps: [{create: {name: p, containers: [{name: c, nvidia.com/gpu: 5}]}}, {delete: p}]"
    document = run(text)
    assert document["steps"][0]["admitted"] is False
    assert [one["allocated"]["nvidia.com/gpu"] for one in document["node"]["numaNodes"]] == [0, 0]


def test_shares_take_the_lowest_free_cpus_and_devices():
    text = NODE + ALIGNED % "single-numa-node"
    text += "allocated: [{numa: 0, cpu: 2, memory: 4Gi, nvidia.com/gpu: 1}, {numa: 0, nvidia.com/gpu: 1}]\n"
    text += "steps: [{create: {name: p, containers: [{name: c, cpu: 1, memory: 1Gi, nvidia.com/gpu: 1}]}}]"
    document = run(text)
    (container,) = containers(document, "p")
    assert container["cpus"] == "3"
    assert container["devices"]["nvidia.com/gpu"]["ids"] == ["gpu-0-2"]
    assert document["node"]["numaNodes"][0]["allocated"] == {
        "cpu": 3, "memory": 5 * GIB, "nvidia.com/gpu": 3, "intel.com/vf": 0,
    }  # fmt: skip


def test_machine_of_one_cpu_less_and_one_memory_less_node():
    text = """
node:
  numaNodes: [{id: 3, memory: 8Gi}, {id: 5, cpus: "0-3"}]
  devices: [{resource: nvidia.com/gpu, numa: 3, count: 1}]
kubelet:
  topologyManagerPolicy: best-effort
  cpuManagerPolicy: static
  memoryManagerPolicy: Static
  reservedSystemCPUs: "0"
  reservedMemory: [{numaNode: 3, limits: {memory: 1Gi}}]
steps:
  - create: {name: p, containers: [{name: c, cpu: 1, memory: 1Gi, nvidia.com/gpu: 1}]}
"""
    (container,) = containers(run(text), "p")
    assert container["cpus"] == "1"
    assert container["devices"]["nvidia.com/gpu"]["numa"] == [3]
    # No NUMA node has both: all nodes, not preferred.
    assert (container["affinity"], container["preferred"]) == ([3, 5], False)
    assert container["memory"][0]["numa"] == [3, 5]
