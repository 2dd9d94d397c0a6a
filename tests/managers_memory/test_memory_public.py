"""Publicly reported cases, replayed as users met them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from memory_cases import common_hints, load, one_container_pod, to_hint, unused_machine
from numaplace.errors import AllocationError
from numaplace.managers.device_manager import PodUid
from numaplace.managers.memory.static import MemoryState, StaticMemoryPolicy, static_policy
from numaplace.model.names import MEMORY

OTHER_KEYS = {"admit", "hints", "affinity", "nodes", "refusal", "size"}


def admit(policy: StaticMemoryPolicy, state: MemoryState, step: Mapping[str, Any]) -> MemoryState:
    amounts = {key: amount for key, amount in step.items() if key not in OTHER_KEYS}
    pod = one_container_pod(step["admit"], **amounts)
    container = pod.containers[0]
    assert common_hints(policy.container_hints(state, pod, container)) == step["hints"]
    affinity = to_hint(step["affinity"])
    if "refusal" in step:
        with pytest.raises(AllocationError) as refused:
            policy.allocate(state, pod, container, affinity=affinity)
        assert refused.value.reason == step["refusal"]
        return state
    state = policy.allocate(state, pod, container, affinity=affinity)
    blocks = policy.blocks(state, pod.uid, "c")
    assert {block.nodes for block in blocks} == {tuple(step["nodes"])}
    if "size" in step:
        assert [block.size_bytes for block in blocks if block.type == MEMORY] == [step["size"]]
    return state


@pytest.mark.parametrize("case", load("public.yaml"), ids=lambda case: case["id"])
def test_public_case(case: Mapping[str, Any]) -> None:
    policy = static_policy(unused_machine(case))
    state = policy.initial_state()
    for step in case["steps"]:
        if "delete" in step:
            state = policy.remove(state, PodUid(step["delete"]), "c")
        else:
            state = admit(policy, state, step)
