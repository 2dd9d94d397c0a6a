"""Random machines, options and pod mixes, with the answers that kubelet v1.37.2's own code gave.

One case per line of ``recorded.jsonl``. ``pods``: uid (a ``!`` after it: pod-level resources) -> container ->
[kind, CPU request, CPU limit, memory or not]. ``steps``: what is asked, the last of ``allocate`` is the mask
of the Topology Manager. ``answer``: per step; hints as masks, negative ones not preferred; CPU lists; the
shared pool after ``remove``; ``!`` and the reason of a refusal. Or what happened instead: the kubelet refused
to start with these options, or it never answered (``endless``).
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from cpu_cases import CASES, Case, container, name_of, pod, policy_of, state_of, topology_of
from numaplace.engine.hint import Hint
from numaplace.errors import AllocationError, InputError
from numaplace.managers.cpu.bits import cpu_list
from numaplace.managers.cpu.refusal import CpuRefusal
from numaplace.managers.cpu.state import CpuState
from numaplace.managers.cpu.static import CpuHints, StaticCpuPolicy
from numaplace.managers.device_manager import ContainerKind
from numaplace.managers.pod import Pod
from numaplace.model.names import CPU

ENDLESS = "endless"
RECORDED = [json.loads(line) for line in (CASES / "recorded.jsonl").read_text().splitlines()]


def pods_of(case: Case) -> dict[str, Pod]:
    pods = {}
    for key, rows in case["pods"].items():
        uid = key.rstrip("!")
        containers = [
            container(name, request, limit, memory_bytes=memory << 30, kind=ContainerKind(kind))
            for name, (kind, request, limit, memory) in rows.items()
        ]
        pods[uid] = pod(uid, *containers, pod_level=key.endswith("!"))
    return pods


def spelled(hints: CpuHints) -> list[int] | None:
    if not hints:
        return None
    return [(hint.mask or 0) * (1 if hint.preferred else -1) for hint in hints[CPU] or ()]


def step(
    policy: StaticCpuPolicy, state: CpuState, pods: dict[str, Pod], what: list[Any]
) -> tuple[Any, CpuState]:
    kind, asked = what[0], pods[what[1]]
    if kind == "pod_hints":
        return spelled(policy.pod_hints(state, asked)), state
    one = next(each for each in asked.in_order if each.name == what[2])
    if kind == "hints":
        return spelled(policy.container_hints(state, asked, one)), state
    if kind == "remove":
        state = policy.remove(state, asked.uid, one.name)
        return cpu_list(state.default_bits), state
    try:
        state = policy.allocate(state, asked, one, Hint(what[3], preferred=True))
    except AllocationError as error:
        return (ENDLESS if error.reason == CpuRefusal.ENDLESS else f"!{error.reason}"), state
    bits = state.assigned_bits.get((asked.uid, one.name))
    return (None if bits is None else cpu_list(bits)), state


@pytest.mark.parametrize("case", RECORDED, ids=name_of)
def test_answers_are_the_kubelets(case: Case) -> None:
    topology = topology_of(case["topology"])
    if case["answer"] == "no policy":
        with pytest.raises(InputError):
            policy_of(case, topology)
        return
    policy = policy_of(case, topology)
    state = state_of(case) if "shared" in case else policy.initial_state()
    pods, answers = pods_of(case), []
    for what in case["steps"]:
        answer, state = step(policy, state, pods, what)
        answers.append(answer)
        if answer == ENDLESS:
            break
    assert answers[-1] == ENDLESS if case["answer"] == ENDLESS else answers == case["answer"]
