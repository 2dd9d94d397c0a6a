"""What scenario files may say, and that every wrong one is refused in words."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from numaplace.errors import ScenarioError
from numaplace.managers.device_manager import ContainerKind
from numaplace.model.names import CPU, MEMORY
from numaplace.model.quantity import parse_quantity, rounded_up
from numaplace.reading.names import parse_cpu_list
from numaplace.simulate.scenario.load import load_scenario, parse_scenario
from numaplace.simulate.scenario.records import Create, Delete, Enforcement, Health
from numaplace.simulate.simulator.run import Simulator

CASES = Path(__file__).parent.parent / "cases" / "simulate_scenario"
REFUSED = yaml.safe_load((CASES / "refused.yaml").read_text())
GIB = 1024**3


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in REFUSED])
def test_a_wrong_file_is_refused_with_file_line_and_key(case):
    with pytest.raises(ScenarioError) as caught:
        Simulator(parse_scenario(case["text"], source="s.yaml"))
    problems = caught.value.problems
    assert len(problems) == len(case["problems"]), problems
    for problem, part in zip(problems, case["problems"], strict=True):
        assert part in problem


FULL = """
node:
  numaNodes:
    - {id: 1, cpus: "16-31,80-95", memory: 64Gi}
    - {id: 0, cpus: "0-15,64-79", memory: 64Gi, hugepages-1Gi: 8Gi}
  distances: [[10, 21], [21, 10]]
  cpuTopology:
    sockets: {0: "0-31,64-95"}
    cores: ["0,64", "1,65"]
  devices:
    - {resource: nvidia.com/gpu, numa: 0, count: 2}
    - {resource: nvidia.com/gpu, numa: 0, count: 2}
    - {resource: nvidia.com/gpu, numa: [0, 1], count: 1}
    - {resource: intel.com/vf, numa: 1, ids: ["0000:3b:02.0"], group: "0000:3b:00.0"}
    - {resource: example.com/any, numa: null, count: 2}
kubelet:
  apiVersion: kubelet.config.k8s.io/v1beta1
  kind: KubeletConfiguration
  topologyManagerPolicy: single-numa-node
  topologyManagerPolicyOptions: {prefer-closest-numa-nodes: "true"}
  cpuManagerPolicy: static
  memoryManagerPolicy: Static
  reservedSystemCPUs: "0,64"
  reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]
  evictionHard: {memory.available: 5%, nodefs.available: 10%}
placement: {strategy: most-allocated, weights: "nvidia.com/gpu=10", enforcement: off}
allocated:
  - {numa: 0, cpu: 8, memory: 32Gi, nvidia.com/gpu: 1}
steps:
  - create: {name: a, containers: [{name: c, cpu: 8, memory: 16Gi, nvidia.com/gpu: 1}]}
  - create:
      name: b
      initContainers: [{name: i, cpu: 1}, {name: s, cpu: 1, restartPolicy: Always}]
      containers: [{name: c, requests: {cpu: 500m}, limits: {cpu: 1, memory: 1e9}}]
  - unhealthy: {resource: nvidia.com/gpu, ids: [gpu-0-1]}
  - delete: a
"""


def test_everything_that_a_file_may_say():
    scenario = parse_scenario(FULL, source="full")
    assert scenario.machine.ids == (0, 1)
    assert scenario.machine.numa_nodes[1].sizes["hugepages-1Gi"] == 0
    devices = {name: [one.id for one in found] for name, found in scenario.machine.devices.items()}
    assert devices == {
        "nvidia.com/gpu": ["gpu-0-0", "gpu-0-1", "gpu-0-2", "gpu-0-3", "gpu-0.1-0"],
        "intel.com/vf": ["0000:3b:02.0"],
        "example.com/any": ["any-any-0", "any-any-1"],
    }
    assert scenario.kubelet.hard_eviction == Fraction(1, 20)
    assert scenario.placement.enforcement is Enforcement.OFF
    assert scenario.allocated[0].amounts == {CPU: 8000, MEMORY: 32 * GIB, "nvidia.com/gpu": 1}
    create_a, create_b, unhealthy, delete = scenario.steps
    assert isinstance(create_a, Create)
    assert create_a.pod.containers[0].limits == create_a.pod.containers[0].requests
    assert isinstance(create_b, Create)
    assert [one.kind for one in create_b.pod.init_containers] == [ContainerKind.INIT, ContainerKind.SIDECAR]
    (container,) = create_b.pod.containers
    assert container.requests == {CPU: 500, MEMORY: 10**9}
    assert container.limits == {CPU: 1000, MEMORY: 10**9}
    assert unhealthy == Health("nvidia.com/gpu", ("gpu-0-1",), healthy=False)
    assert delete == Delete("a")


def test_json_is_read_too(tmp_path):
    file = tmp_path / "s.json"
    file.write_text(json.dumps(yaml.safe_load(FULL), indent="\t"))
    scenario = load_scenario(file)
    assert scenario.machine == parse_scenario(FULL, source="full").machine
    assert scenario.placement.enforcement is Enforcement.OFF


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(ScenarioError, match=r"nowhere\.yaml: cannot be read: No such file or directory"):
        load_scenario(tmp_path / "nowhere.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\xfd")
    with pytest.raises(ScenarioError, match=r"bytes\.yaml: is not UTF-8 text"):
        load_scenario(tmp_path / "bytes.yaml")


def test_a_reservation_that_the_file_states_includes_the_kubelets_own_threshold():
    text = """
    node: {numaNodes: [{id: 0, cpus: "0-3", memory: 8Gi}]}
    kubelet:
      memoryManagerPolicy: Static
      systemReserved: {memory: 924Mi, cpu: 500m}
      reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]
    """
    assert Simulator(parse_scenario(text, source="s")).node.use()[0].allocatable[MEMORY] == 7 * GIB
    without = text.replace("924Mi", "1Gi").replace("      reserved", "      evictionHard: {}\n      reserved")
    assert Simulator(parse_scenario(without, source="s")).node.use()[0].allocatable[MEMORY] == 7 * GIB


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("8", 8), ("500m", Fraction(1, 2)), ("16Gi", 16 * GIB), ("1e3", 1000), ("1E3", 1000), ("1E", 10**18),
        ("0.5", Fraction(1, 2)), (".5", Fraction(1, 2)), ("5.", 5), ("1.5Gi", 3 * GIB // 2), ("-3k", -3000),
        ("+2", 2), ("100n", Fraction(1, 10**7)),
    ],
)  # fmt: skip
def test_quantities(text, amount):
    assert parse_quantity(text) == amount


@pytest.mark.parametrize("text", ["", "Gi", "1 Gi", "1gi", "1KiB", "0x10", "1e", "--1", "1,5", ".", "\u0661"])
def test_what_is_no_quantity(text):
    with pytest.raises(ValueError, match="not a quantity"):
        parse_quantity(text)


@given(st.integers(0, 10**6))
def test_quantities_are_rounded_up_as_in_kubernetes(milli):
    whole = rounded_up(parse_quantity(f"{milli}m"))
    assert whole - 1 < milli / 1000 <= whole


@given(st.frozensets(st.integers(0, 300), max_size=20))
def test_cpu_lists(cpus):
    assert parse_cpu_list(",".join(map(str, sorted(cpus)))) == cpus


def test_cpu_list_ranges():
    assert parse_cpu_list("0-2, 5") == {0, 1, 2, 5}
    for text in ("a", "1-", "-1", "3-1", "0-99999", "1--2", "1 2"):
        with pytest.raises(ValueError, match=r"not a range|backwards"):
            parse_cpu_list(text)
