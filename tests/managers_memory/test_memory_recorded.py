"""Random scenarios with the answers of the kubelet's own policy.

Recorded from kubelet v1.37.2: ``memorymanager.NewPolicyStatic`` with ``state.NewMemoryState``. The answers
of one scenario: every hint list, every refusal, and at the end all blocks and the whole machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from memory_cases import (
    common_hints,
    in_type_order,
    load,
    to_assigned,
    to_hint,
    to_pod,
    unused_machine,
)
from numaplace.errors import AllocationError
from numaplace.managers.memory.static import MemoryState, StaticMemoryPolicy, static_policy
from numaplace.managers.pod import Container, Pod


def find(pod: Pod, name: str) -> Container:
    return next(container for container in pod.in_order if container.name == name)


def play(policy: StaticMemoryPolicy, state: MemoryState, *, step: list[str], pod: Pod) -> MemoryState:
    match step:
        case ["pod_hints", _, _, expected]:
            assert common_hints(policy.pod_hints(state, pod)) == expected
        case ["hints", _, name, expected]:
            assert common_hints(policy.container_hints(state, pod, find(pod, name))) == expected
        case ["remove", _, name]:
            return policy.remove(state, pod.uid, name)
        case ["allocate", _, name, affinity, refusal]:
            if not refusal:
                return policy.allocate(state, pod, find(pod, name), affinity=to_hint(affinity))
            with pytest.raises(AllocationError) as refused:
                policy.allocate(state, pod, find(pod, name), affinity=to_hint(affinity))
            assert refused.value.reason == refusal
        case _:
            pytest.fail(f"unknown step {step}")
    return state


@pytest.mark.parametrize("row", load("recorded.json"), ids=lambda row: row["id"])
def test_answers_are_the_kubelets(row: Mapping[str, Any]) -> None:
    policy = static_policy(unused_machine(row))
    assert [[one.type, one.size_bytes, list(one.nodes)] for one in policy.allocatable()] == sorted(
        row["allocatable"], key=lambda block: (block[2], block[0])
    )
    pods = {pod["uid"]: to_pod(pod) for pod in row["pods"]}
    state = policy.initial_state()
    for step in row["steps"]:
        state = play(policy, state, step=step, pod=pods[step[1]])
    assert in_type_order(state.assigned) == in_type_order(to_assigned(row["assigned"]))
    assert {
        str(id_): {
            "assignments": node.assignments,
            "cells": list(node.cells),
            "tables": {type_: [table.reserved, table.free] for type_, table in node.tables.items()},
        }
        for id_, node in state.machine.nodes.items()
    } == row["machine"]
