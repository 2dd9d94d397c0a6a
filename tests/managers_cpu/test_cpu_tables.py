"""The kubelet's own test tables for the CPU manager, and public reports, as data."""

from __future__ import annotations

import pytest
from cpu_cases import (
    TOPOLOGIES,
    Case,
    container,
    cpus,
    load,
    name_of,
    options_of,
    pod,
    policy_of,
    regular,
    state_of,
)
from numaplace.engine.hint import Hint
from numaplace.errors import AllocationError
from numaplace.managers.cpu.assignment import take_by_topology_packed
from numaplace.managers.cpu.bits import bits_of, cpu_list, cpus_of
from numaplace.managers.cpu.distribution import take_by_topology_distributed
from numaplace.managers.cpu.state import CpuState
from numaplace.managers.cpu.topology import CpuDetail, CpuTopology
from numaplace.managers.device_manager import ContainerKind, PodUid
from numaplace.model.mask import mask_of, nodes_of
from numaplace.model.names import CPU

NO_HINT = Hint(None, preferred=False)


def affinity_of(case: Case) -> Hint:
    return Hint(mask_of(case["affinity"]), preferred=True) if "affinity" in case else NO_HINT


def take(case: Case) -> int:
    topology, available = TOPOLOGIES[case["topology"]], bits_of(cpus(case["available"]))
    if "group" in case:
        return take_by_topology_distributed(topology, available, wanted=case["wanted"], group=case["group"])
    options = options_of(case)
    return take_by_topology_packed(
        topology,
        available,
        wanted=case["wanted"],
        spread=options.distribute_across_cores,
        prefer_uncore=options.prefer_uncore_cache,
    )


@pytest.mark.parametrize("case", load("take.yaml"), ids=name_of)
def test_the_cpus_taken_are_upstreams(case: Case) -> None:
    if "refused" in case:
        with pytest.raises(AllocationError) as refused:
            take(case)
        assert refused.value.reason == case["refused"]
    else:
        assert cpu_list(take(case)) == case["taken"]


@pytest.mark.parametrize("case", load("allocate.yaml"), ids=name_of)
def test_containers_get_what_upstream_gives(case: Case) -> None:
    topology = TOPOLOGIES[case["topology"]]
    policy, state = policy_of(case, topology), state_of(case)
    asked = pod(case["pod"], *(container(name, *amounts) for name, amounts in case["containers"].items()))
    if "refused" in case:
        with pytest.raises(AllocationError) as refused:
            policy.allocate(state, asked, asked.containers[0], affinity_of(case))
        assert refused.value.reason == case["refused"]
        return
    for one in asked.in_order:
        state = policy.allocate(state, asked, one, affinity_of(case))
    if "uncore_caches" in case:
        held = frozenset[int]().union(*(state.cpus(asked.uid, one.name) or () for one in asked.in_order))
        assert sorted({topology.details[cpu].uncore_cache for cpu in held}) == case["uncore_caches"]
        return
    given = state.cpus(asked.uid, asked.containers[0].name)
    assert given == (None if case["cpus"] is None else cpus(case["cpus"]))
    assert not given or not given & state.default


# The machine of the hint tests as cAdvisor describes it: one cache id for all.
HINTS_MACHINE = CpuTopology.of(regular(nodes=2, sockets=2, cores=3, threads=2).details, num_uncore=1)


@pytest.mark.parametrize("case", load("hints.yaml"), ids=name_of)
def test_hints_are_upstreams(case: Case) -> None:
    policy = policy_of(case, TOPOLOGIES[case["topology"]] if "topology" in case else HINTS_MACHINE)
    assigned = {"assigned": {"fakePod/c": case["held"]}} if "held" in case else {}
    state = state_of({**case, **assigned})
    asked = pod("fakePod", container("c", case["request"] * 1000), pod_level=case.get("pod_level", False))
    for hints in (
        policy.container_hints(state, asked, asked.containers[0]),
        policy.pod_hints(state, asked),
    ):
        if case["hints"] is None:
            assert not hints
            continue
        offered = hints[CPU]
        assert offered is not None
        expected = case["hints"] or {}
        assert [(",".join(map(str, nodes_of(hint.mask or 0))), hint.preferred) for hint in offered] == list(
            expected.items()
        )


@pytest.mark.parametrize("case", load("public.yaml"), ids=name_of)
def test_public_reports(case: Case) -> None:
    topology = regular(**case["machine"])
    policy = policy_of(case, topology)
    taken = cpus(case.get("taken", ""))
    state = CpuState.of(topology.cpus - taken, {})
    init = [
        container(f"init{index}", wanted * 1000, kind=ContainerKind.INIT)
        for index, wanted in enumerate(case.get("init_requests", ()))
    ]
    apps = [container(f"c{index}", wanted * 1000) for index, wanted in enumerate(case["requests"])]
    asked = pod("p", *init, *apps)
    for one in asked.in_order:
        state = policy.allocate(state, asked, one, affinity_of(case))
    given = state.cpus(asked.uid, asked.containers[-1].name)
    assert given is not None
    if "cpus" in case:
        assert given == cpus(case["cpus"])
    if "shared" in case:
        assert cpu_list(state.default_bits) == case["shared"]
    if "per_node" in case:
        counts = {node: len(given & cpus_of(topology.numa[node])) for node in topology.numa}
        assert {node: count for node, count in counts.items() if count} == case["per_node"]


def test_hybrid_processors_give_a_held_cpu_away() -> None:
    """Two cores of two threads and four of one: kubelet v1.37.2 takes the half free core for a free one."""
    cores = [0, 0, 2, 2, 4, 5, 6, 7]
    hybrid = CpuTopology.of({cpu: CpuDetail(0, 0, core, 0) for cpu, core in enumerate(cores)})
    policy = policy_of({}, hybrid)
    state = CpuState.of(frozenset(range(1, 8)), {(PodUid("x"), "a"): frozenset({0})})
    asked = pod("p", container("c", 2000))
    after = policy.allocate(state, asked, asked.containers[0], NO_HINT)
    assert after.cpus(asked.uid, "c") == {0, 1}
    assert after.cpus(PodUid("x"), "a") == {0}
