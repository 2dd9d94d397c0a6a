"""Scores of memory hints (KEP-6007) and reporting."""

from __future__ import annotations

import pytest
from memory_cases import one_container_pod
from numaplace.engine.hint import Hint
from numaplace.managers.device_manager import PodUid
from numaplace.managers.memory.machine import machine_memory
from numaplace.managers.memory.policies import MEMORY_POLICIES
from numaplace.managers.memory.static import StaticMemoryPolicy, static_policy
from numaplace.managers.pod import Container, Pod
from numaplace.model.names import CPU, MEMORY, ResourceName
from numaplace.model.podresources import MemoryBlock

GI = 2**30
PAGES = ResourceName("hugepages-1Gi")


def policy() -> StaticMemoryPolicy:
    """Two nodes with 128Gi allocatable and 8 pages of 1Gi each."""
    sizes = {MEMORY: 137 * GI, PAGES: 8 * GI}
    return static_policy(machine_memory({0: sizes, 1: sizes}, {0: {MEMORY: GI}, 1: {MEMORY: GI}}))


def scores(of: StaticMemoryPolicy, *used: tuple[int, str, str], ask: Pod) -> dict[str, list[int]]:
    """Scores by type for masks 1, 2, 3, after pods (mask, memory, hugepages) have come."""
    state = of.initial_state()
    for number, (mask, memory, pages) in enumerate(used):
        pod = one_container_pod(f"used{number}", memory=memory, hugepages_1Gi=pages)
        state = of.allocate(state, pod, pod.containers[0], affinity=Hint(mask, preferred=True))
    hints = of.container_hints(state, ask, ask.containers[0])
    return {type_: [hint.score for hint in of_type] for type_, of_type in hints.items()}


def test_unused_memory_scores_one() -> None:
    assert scores(policy(), ask=one_container_pod("a", memory="1Gi")) == {MEMORY: [1, 1, 1]}


def test_score_is_of_assigned_bytes_by_type() -> None:
    ask = one_container_pod("a", memory="16Gi", hugepages_1Gi="1Gi")
    used = ((1, "96Gi", "2Gi"), (2, "32Gi", "6Gi"))
    assert scores(policy(), *used, ask=ask) == {MEMORY: [75, 25], PAGES: [25, 75]}


def test_score_of_a_group_is_of_all_its_nodes() -> None:
    ask = one_container_pod("a", memory="16Gi", hugepages_1Gi="1Gi")
    assert scores(policy(), (3, "192Gi", "4Gi"), ask=ask) == {MEMORY: [75], PAGES: [25]}


def test_regenerated_hints_score_too() -> None:
    one = policy()
    pod = one_container_pod("a", memory="64Gi")
    state = one.allocate(one.initial_state(), pod, pod.containers[0], affinity=Hint(2, preferred=True))
    assert one.container_hints(state, pod, pod.containers[0]) == {
        MEMORY: (Hint(2, preferred=True, score=50),)
    }
    assert one.pod_hints(state, pod) == {MEMORY: (Hint(2, preferred=True, score=50),)}


def test_a_type_that_a_node_lacks_is_no_memory_there() -> None:
    uneven = static_policy(
        machine_memory({0: {MEMORY: 8 * GI, PAGES: 2 * GI}, 4: {MEMORY: 8 * GI}}, {0: {MEMORY: GI}})
    )
    pod = one_container_pod("a", memory="1Gi", hugepages_1Gi="1Gi")
    hints = uneven.container_hints(uneven.initial_state(), pod, pod.containers[0])
    assert [(hint.mask, hint.preferred) for hint in hints[PAGES]] == [(1, True), (17, False)]
    other = Container(
        "c", requests={CPU: 1, MEMORY: 1, ResourceName("hugepages-2Mi"): 2}, limits={CPU: 1, MEMORY: 1}
    )
    assert uneven.container_hints(uneven.initial_state(), Pod(PodUid("b"), "n", "b", (other,)), other) == {}


def test_allocatable_is_without_reserved_memory_and_hugepages() -> None:
    assert policy().allocatable() == tuple(
        MemoryBlock(type=type_, size_bytes=size, nodes=(node,))
        for node in (0, 1)
        for type_, size in ((PAGES, 8 * GI), (MEMORY, 128 * GI))
    )


@pytest.mark.parametrize("mask", [None, 1])
def test_none_does_nothing(mask: int | None) -> None:
    none = MEMORY_POLICIES["None"](policy().machine)
    state = none.initial_state()
    pod = one_container_pod("a", memory="1Gi")
    assert none.container_hints(state, pod, pod.containers[0]) == none.pod_hints(state, pod) == {}
    assert none.allocate(state, pod, pod.containers[0], affinity=Hint(mask, preferred=True)) == state
    assert none.remove(state, pod.uid, "c") == state
    assert none.blocks(state, pod.uid, "c") == none.allocatable() == ()
