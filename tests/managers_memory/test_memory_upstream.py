"""Upstream's own test tables, by upstream's names (kubelet v1.37.2 ``memorymanager``).

Left out: rows that need the gate PodLevelResourceManagers, other operations than an addition, the
validation of a checkpoint, and mocked policies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from memory_cases import hint_texts, in_type_order, load, to_assigned, to_machine, to_pod
from numaplace.engine.hint import Hint
from numaplace.errors import AllocationError, InputError
from numaplace.managers.device_manager import PodUid
from numaplace.managers.memory.machine import machine_memory
from numaplace.managers.memory.policies import MEMORY_POLICIES, MemoryPolicy
from numaplace.managers.memory.requests import pod_requests
from numaplace.managers.memory.static import MemoryState
from numaplace.model.names import MEMORY, ResourceName

GI = 2**30
HUGEPAGES = ResourceName("hugepages-1Gi")


def start(row: Mapping[str, Any]) -> tuple[MemoryPolicy, MemoryState]:
    machine = to_machine(row["machine"])
    policy = MEMORY_POLICIES[row.get("policy", "Static")](machine)
    return policy, MemoryState(machine, assigned=to_assigned(row.get("assigned", {})))


def allocate(policy: MemoryPolicy, state: MemoryState, row: Mapping[str, Any]) -> MemoryState:
    pod = to_pod(row["pod"])
    affinity = Hint(*row.get("affinity", (None, False)))
    for container in pod.in_order:
        state = policy.allocate(state, pod, container, affinity=affinity)
    return state


def play(row: Mapping[str, Any]) -> MemoryState:
    policy, state = start(row)
    match row["do"]:
        case "remove":
            uid, name = row["remove"]
            return policy.remove(state, PodUid(uid), name)
        case "allocate":
            return allocate(policy, state, row)
    pytest.fail(f"unknown case {row['do']}")


ROWS = load("upstream.json")


@pytest.mark.parametrize("row", [row for row in ROWS if "hints" not in row["do"]], ids=lambda row: row["id"])
def test_changes_of_state(row: Mapping[str, Any]) -> None:
    expected = row["expected"]
    if expected.get("refusal"):
        with pytest.raises(AllocationError) as refused:
            play(row)
        assert refused.value.reason == expected["refusal"]
        return
    state = play(row)
    if "machine" in expected:
        assert state.machine == to_machine(expected["machine"])
    if "assigned" in expected:
        assert in_type_order(state.assigned) == in_type_order(to_assigned(expected["assigned"]))


@pytest.mark.parametrize("row", [row for row in ROWS if "hints" in row["do"]], ids=lambda row: row["id"])
def test_hints(row: Mapping[str, Any]) -> None:
    policy, state = start(row)
    pod = to_pod(row["pod"])
    if row["do"] == "pod_hints":
        hints = policy.pod_hints(state, pod)
    else:
        hints = policy.container_hints(state, pod, pod.containers[0])
    expected = {
        type_: [Hint(*hint) for hint in of_type] for type_, of_type in row["expected"]["hints"].items()
    }
    assert {type_: hint_texts(of_type) for type_, of_type in hints.items()} == {
        type_: hint_texts(of_type) for type_, of_type in expected.items()
    }


@pytest.mark.parametrize(
    ("init", "sidecars", "apps", "expected"),
    [
        pytest.param((1, 4), (), (1, 2), 4, id="maximum init > total of containers"),
        pytest.param((1, 2), (), (1, 3), 4, id="maximum init < total of containers"),
        pytest.param((5,), (2,), (1, 2), 7, id="maximum init on top of sidecars > long running"),
        pytest.param((1,), (2,), (1, 3), 6, id="maximum init < long running with sidecars"),
    ],
)
def test_pod_requests(
    init: tuple[int, ...], sidecars: tuple[int, ...], apps: tuple[int, ...], expected: int
) -> None:
    """As upstream's ``Test_getPodRequestedResources``."""

    def container(name: str, size: int) -> dict[str, Any]:
        return {"name": name, "requests": {MEMORY: size * GI, HUGEPAGES: size * GI}}

    pod = to_pod(
        {
            "uid": "pod",
            "init": [
                *({**container(f"side{n}", size), "sidecar": True} for n, size in enumerate(sidecars)),
                *(container(f"init{n}", size) for n, size in enumerate(init)),
            ],
            "containers": [container(f"app{n}", size) for n, size in enumerate(apps)],
        }
    )
    assert pod_requests(pod) == {HUGEPAGES: expected * GI, MEMORY: expected * GI}


def test_pod_requests_of_init_containers_alone_are_dropped() -> None:
    pod = to_pod(
        {
            "uid": "pod",
            "init": [{"name": "init", "requests": {MEMORY: 1, HUGEPAGES: GI}}],
            "containers": [{"name": "app", "requests": {MEMORY: 1}}],
        }
    )
    assert pod_requests(pod) == {MEMORY: 1}


def test_static_needs_reserved_memory() -> None:
    """As upstream's ``TestStaticPolicyNew``."""
    sizes = {0: {MEMORY: 4 * GI}, 1: {MEMORY: 4 * GI}}
    with pytest.raises(InputError, match="reservedMemory"):
        MEMORY_POLICIES["Static"](machine_memory(sizes, {}))
    MEMORY_POLICIES["Static"](machine_memory(sizes, {1: {MEMORY: 1}}))
    MEMORY_POLICIES["None"](machine_memory(sizes, {}))


def test_too_many_nodes_are_refused() -> None:
    sizes = {node: {MEMORY: GI} for node in range(17)}
    with pytest.raises(InputError, match="17 NUMA nodes"):
        MEMORY_POLICIES["Static"](machine_memory(sizes, {0: {MEMORY: 1}}))
