"""What holds on every machine, under every option, for every mix of pods."""

from __future__ import annotations

import math
from collections.abc import Iterable

from cpu_cases import container, pod
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from numaplace.engine.hint import Hint
from numaplace.errors import AllocationError
from numaplace.managers.cpu.bits import bits_of, cpu_list, cpus_of
from numaplace.managers.cpu.distribution import standard_deviation
from numaplace.managers.cpu.options import CONFLICTS, CPU_OPTIONS, CpuPolicyOptions
from numaplace.managers.cpu.state import CpuState
from numaplace.managers.cpu.static import StaticCpuPolicy
from numaplace.managers.cpu.topology import CpuDetail, CpuTopology
from numaplace.managers.device_manager import ContainerKind
from numaplace.managers.pod import Pod
from numaplace.model.mask import nodes_of, width
from numaplace.model.names import CPU


@st.composite
def machines(draw: st.DrawFn) -> CpuTopology:
    """Machines of equal cores, NUMA nodes and sockets that nest; NUMA nodes have any ids.

    On unequal ones the kubelet may give CPUs away twice (``test_hybrid_processors_give_a_held_cpu_away``).
    """
    sockets = draw(st.sampled_from([1, 2, 3]))
    per_socket = draw(st.integers(1, 6 // sockets))
    count = sockets * per_socket
    ids = sorted(draw(st.sets(st.integers(0, 20), min_size=count, max_size=count)))
    threads = draw(st.sampled_from([1, 2, 4]))
    cores = draw(st.integers(1, 5))
    total = count * cores
    return CpuTopology.of(
        {
            position * cores + core + thread * total: CpuDetail(
                numa=node,
                socket=position // per_socket,
                core=position * cores + core,
                uncore_cache=position * 10 + core // 2,
            )
            for position, node in enumerate(ids)
            for core in range(cores)
            for thread in range(threads)
        }
    )


@st.composite
def policies(draw: st.DrawFn) -> StaticCpuPolicy:
    topology = draw(machines())
    on = draw(st.sets(st.sampled_from(sorted(CPU_OPTIONS))))
    for one, other in CONFLICTS:
        if {one, other} <= on:
            on.discard(other)
    options = CpuPolicyOptions(**{CPU_OPTIONS[name].field: True for name in on})
    if draw(st.booleans()):
        reserved = draw(st.sets(st.sampled_from(sorted(topology.cpus)), max_size=3))
        return StaticCpuPolicy.reserving(
            topology, options, count=len(reserved), reserved_cpus=frozenset(reserved)
        )
    count = draw(st.integers(0, 1))
    return StaticCpuPolicy.reserving(topology, options, count=count)


def mix(policy: StaticCpuPolicy) -> st.SearchStrategy[list[tuple[Pod, int | None, bool]]]:
    """Pods to come one after another, each with the Topology Manager's mask and whether it goes again."""
    kinds = st.sampled_from([ContainerKind.APP, ContainerKind.APP, ContainerKind.INIT, ContainerKind.SIDECAR])
    wanted = st.integers(1, max(1, policy.topology.num_cpus // 2))
    rows = st.lists(st.tuples(kinds, wanted), min_size=1, max_size=3)
    masks = st.none() | st.sampled_from([size.mask for size in policy.topology.mask_sizes()])
    return st.lists(st.tuples(rows, masks, st.booleans()), max_size=5).map(
        lambda pods: [
            (
                pod(
                    f"p{index}",
                    *(
                        container(f"c{position}", cpus * 1000, kind=kind)
                        for position, (kind, cpus) in enumerate(rows)
                    ),
                ),
                mask,
                goes,
            )
            for index, (rows, mask, goes) in enumerate(pods)
        ]
    )


def disjoint(sets: Iterable[frozenset[int]]) -> bool:
    sets = list(sets)
    return len(frozenset().union(*sets)) == sum(map(len, sets))


def _without(policy: StaticCpuPolicy, state: CpuState, gone: Pod) -> CpuState:
    for one in gone.in_order:
        state = policy.remove(state, gone.uid, one.name)
    return state


def check(policy: StaticCpuPolicy, state: CpuState) -> None:
    """The pool and what is held are apart and make up the machine; reserved CPUs are nobody's."""
    held = frozenset[int]().union(*state.assigned.values())
    whole = policy.initial_state().default
    assert not held & state.default
    assert held | state.default == whole
    assert not held & policy.reserved


@settings(max_examples=examples(150))
@given(st.data())
def test_pods_come_and_go(data: st.DataObject) -> None:
    policy = data.draw(policies())
    state = policy.initial_state()
    present = []
    for asked, mask, goes in data.draw(mix(policy)):
        for one in asked.in_order:
            reusable = state.reusable(asked.uid)
            available = policy.available_bits(state) | reusable
            try:
                after = policy.allocate(state, asked, one, Hint(mask, preferred=True))
            except AllocationError:
                # Without the options that refuse or divide, only want of CPUs refuses.
                options = policy.options
                short = one.whole_cpus > available.bit_count()
                assert short or options.full_pcpus_only or options.distribute_across_numa
                break
            given_cpus = after.cpus(asked.uid, one.name)
            assert given_cpus is not None
            assert len(given_cpus) == one.whole_cpus
            assert not bits_of(given_cpus) & ~available
            check(policy, after)
            if one.kind is not ContainerKind.INIT:
                assert not bits_of(given_cpus) & after.reusable(asked.uid)
            state = after
        apps = [state.cpus(asked.uid, one.name) or frozenset() for one in asked.containers]
        assert disjoint(apps)
        present.append(asked)
        if goes:
            state = _without(policy, state, present.pop())
            check(policy, state)
    for asked in present:
        state = _without(policy, state, asked)
    assert state.default == policy.initial_state().default
    assert not state.assigned


@settings(max_examples=examples(150))
@given(st.data())
def test_hints_name_every_set_that_holds_enough_and_prefer_the_narrowest(data: st.DataObject) -> None:
    policy = data.draw(policies())
    topology = policy.topology
    taken = data.draw(st.sets(st.sampled_from(sorted(topology.cpus))))
    state = CpuState.of(policy.initial_state().default - taken, {})
    wanted = data.draw(st.integers(1, topology.num_cpus))
    asked = pod("p", container("c", wanted * 1000))
    hints = policy.container_hints(state, asked, asked.containers[0])[CPU]
    assert hints is not None
    free = state.default - policy.reserved
    nodes = sorted(topology.numa)
    masks = {
        size.mask
        for size in topology.mask_sizes()
        if len(cpus_of(topology.bits_in_numa(nodes_of(size.mask))) & free) >= wanted
    }
    assert {hint.mask for hint in hints} == masks
    assert [width(hint.mask or 0) for hint in hints] == sorted(width(hint.mask or 0) for hint in hints)
    by_size = sorted((topology.bits_in_numa((node,)).bit_count() for node in nodes), reverse=True)
    narrowest = next(count for count in range(1, len(nodes) + 1) if sum(by_size[:count]) >= wanted)
    for hint in hints:
        if not policy.options.align_by_socket:
            assert hint.preferred == (width(hint.mask or 0) == narrowest)
        elif width(hint.mask or 0) == narrowest:
            assert hint.preferred
        assert 0 <= hint.score <= 100


@given(st.data())
def test_a_mask_that_holds_enough_is_kept_to(data: st.DataObject) -> None:
    policy = data.draw(policies())
    wanted = data.draw(st.integers(1, policy.topology.num_cpus))
    asked, state = pod("p", container("c", wanted * 1000)), policy.initial_state()
    for hint in policy.container_hints(state, asked, asked.containers[0])[CPU] or ():
        try:
            after = policy.allocate(state, asked, asked.containers[0], hint)
        except AllocationError:
            continue
        assert hint.mask is not None
        allowed = nodes_of(hint.mask)
        if policy.options.align_by_socket:
            sockets = policy.topology.sockets_of(allowed)
            allowed = tuple(
                node for node in policy.topology.numa if policy.topology.sockets_of((node,)) & sockets
            )
        assert (after.cpus(asked.uid, "c") or frozenset()) <= cpus_of(policy.topology.bits_in_numa(allowed))


@given(st.lists(st.integers(0, 256), min_size=1, max_size=16))
def test_the_balance_is_the_standard_deviation_to_thousandths(counts: list[int]) -> None:
    mean = sum(counts) / len(counts)
    exact = math.sqrt(sum((count - mean) ** 2 for count in counts) / len(counts))
    assert math.isclose(standard_deviation(counts), exact, abs_tol=2e-3)
    assert standard_deviation(counts) == round(standard_deviation(counts), 3)


@given(st.sets(st.integers(0, 300)))
def test_cpu_lists_read_back(ids: set[int]) -> None:
    read = set()
    for part in filter(None, cpu_list(bits_of(ids)).split(",")):
        first, _, last = part.partition("-")
        read |= set(range(int(first), int(last or first) + 1))
    assert read == ids
