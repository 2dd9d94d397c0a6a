"""What holds for every machine and every order of pods."""

from __future__ import annotations

from collections import Counter
from itertools import count

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_cases import one_container_pod
from numaplace.engine.hint import Hint
from numaplace.errors import AllocationError
from numaplace.managers.device_manager import ContainerKind, PodUid
from numaplace.managers.memory.machine import MachineMemory, machine_memory
from numaplace.managers.memory.static import MemoryState, StaticMemoryPolicy, static_policy
from numaplace.managers.pod import Container, Pod
from numaplace.model.mask import masks_by_width, nodes_of, width
from numaplace.model.names import CPU, MEMORY, ResourceName

PAGES = ResourceName("hugepages-2Mi")

machines = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 6)), min_size=1, max_size=4).map(
    lambda sizes: [(memory + pages + 1, pages) for memory, pages in sizes]
)


@st.composite
def policies(draw: st.DrawFn) -> StaticMemoryPolicy:
    """Nodes of a few bytes, each with one byte for the system; ids may be sparse."""
    nodes = draw(machines)
    step = draw(st.integers(1, 3))
    ids = range(0, len(nodes) * step, step)
    sizes = {id_: {MEMORY: memory, PAGES: pages} for id_, (memory, pages) in zip(ids, nodes, strict=True)}
    return static_policy(machine_memory(sizes, {id_: {MEMORY: 1} for id_ in ids}))


@st.composite
def containers(draw: st.DrawFn, name: str, kind: ContainerKind) -> Container:
    requests = {CPU: 1000, MEMORY: draw(st.integers(1, 25))}
    pages = draw(st.integers(0, 8))
    if pages:
        requests[PAGES] = pages
    return Container(name=name, requests=requests, limits=requests, kind=kind)


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    kinds = draw(st.lists(st.sampled_from([ContainerKind.INIT, ContainerKind.SIDECAR]), max_size=3))
    inits = [draw(containers(f"i{n}", kind)) for n, kind in enumerate(kinds)]
    apps = [draw(containers(f"a{n}", ContainerKind.APP)) for n in range(draw(st.integers(1, 2)))]
    return Pod(
        uid=PodUid("unset"), namespace="n", name="p", containers=tuple(apps), init_containers=tuple(inits)
    )


def admit(policy: StaticMemoryPolicy, state: MemoryState, pod: Pod, *, pick: int) -> MemoryState:
    """Admit container by container, each with one of its hints; a refused pod leaves nothing behind."""
    before = state
    for container in pod.in_order:
        hints = policy.container_hints(state, pod, container).get(MEMORY, ())
        affinity = hints[pick % len(hints)] if hints else Hint(None, preferred=False)
        try:
            state = policy.allocate(state, pod, container, affinity=affinity)
        except AllocationError:
            return before
    return state


def release_all(policy: StaticMemoryPolicy, state: MemoryState) -> MemoryState:
    for uid, name in list(state.assigned):
        state = policy.remove(state, uid, name)
    return state


def reserved(machine: MachineMemory) -> Counter[ResourceName]:
    total: Counter[ResourceName] = Counter()
    for node in machine.nodes.values():
        total.update({type_: table.reserved for type_, table in node.tables.items()})
    return total


@st.composite
def used_machines(draw: st.DrawFn) -> tuple[StaticMemoryPolicy, MemoryState]:
    policy = draw(policies())
    state = policy.initial_state()
    for number in range(draw(st.integers(0, 4))):
        pod = draw(pods())
        pod = Pod(PodUid(f"p{number}"), "n", f"p{number}", pod.containers, pod.init_containers)
        state = admit(policy, state, pod, pick=draw(st.integers(0, 20)))
        if state.assigned and draw(st.booleans()):
            uid = draw(st.sampled_from(sorted({uid for uid, _ in state.assigned})))
            for key in [key for key in state.assigned if key[0] == uid]:
                state = policy.remove(state, *key)
    return policy, state


@given(used_machines())
def test_bytes_are_conserved(used: tuple[StaticMemoryPolicy, MemoryState]) -> None:
    policy, state = used
    for id_, node in state.machine.nodes.items():
        for type_, table in node.tables.items():
            assert table.reserved >= 0
            assert table.free >= 0
            assert table.reserved + table.free == table.allocatable
            assert table.allocatable == policy.machine.nodes[id_].table(type_).allocatable
    held: Counter[ResourceName] = Counter({MEMORY: 0, PAGES: 0})
    for blocks in state.assigned.values():
        held.update({block.type: block.size_bytes for block in blocks})
    assert reserved(state.machine) == held


@given(used_machines())
def test_release_of_all_restores_the_machine(used: tuple[StaticMemoryPolicy, MemoryState]) -> None:
    policy, state = used
    assert release_all(policy, state).machine == policy.machine


@given(used_machines(), containers("c", ContainerKind.APP))
def test_every_hint_can_be_had(used: tuple[StaticMemoryPolicy, MemoryState], container: Container) -> None:
    policy, state = used
    pod = Pod(PodUid("new"), "n", "new", (container,))
    hints = policy.container_hints(state, pod, container)
    for hint in hints.get(MEMORY, ()):
        assert hint.mask is not None
        after = policy.allocate(state, pod, container, affinity=hint)
        blocks = policy.blocks(after, pod.uid, "c")
        assert {block.nodes for block in blocks} == {nodes_of(hint.mask)}
        assert {block.type: block.size_bytes for block in blocks} == {
            type_: size for type_, size in container.requests.items() if type_ != CPU
        }
        assert policy.allocate(after, pod, container, affinity=hint) == after
        kept = policy.remove(after, pod.uid, "c").machine
        assert reserved(kept) == reserved(state.machine)


@given(used_machines(), containers("c", ContainerKind.APP))
def test_preferred_is_as_narrow_as_the_unused_machine_allows(
    used: tuple[StaticMemoryPolicy, MemoryState], container: Container
) -> None:
    policy, state = used
    pod = Pod(PodUid("new"), "n", "new", (container,))
    wanted = {type_: size for type_, size in container.requests.items() if type_ != CPU}
    fitting = [
        width(mask)
        for mask in masks_by_width(policy.machine.nodes)
        if all(
            sum(policy.machine.nodes[node].table(type_).allocatable for node in nodes_of(mask)) >= size
            for type_, size in wanted.items()
        )
    ]
    hints = policy.container_hints(state, pod, container)
    for of_type in hints.values():
        assert [hint.mask for hint in of_type] == [hint.mask for hint in hints[MEMORY]]
        for hint in of_type:
            assert hint.mask is not None
            assert hint.preferred == (width(hint.mask) == min(fitting))
            assert 0 <= hint.score <= 100


@given(used_machines(), containers("c", ContainerKind.APP))
def test_no_hint_is_missing(used: tuple[StaticMemoryPolicy, MemoryState], container: Container) -> None:
    """What is not offered is refused or put on other nodes, as far as the pod's own width goes."""
    policy, state = used
    pod = Pod(PodUid("new"), "n", "new", (container,))
    offered = {hint.mask for hint in policy.container_hints(state, pod, container).get(MEMORY, ())}
    for mask in masks_by_width(policy.machine.nodes, smallest=2):
        if mask in offered:
            continue
        try:
            after = policy.allocate(state, pod, container, affinity=Hint(mask, preferred=False))
        except AllocationError:
            continue
        assert policy.blocks(after, pod.uid, "c")[0].nodes != nodes_of(mask)


@settings(max_examples=examples(30))
@given(policies(), st.lists(pods(), max_size=4))
def test_pods_that_are_not_guaranteed_are_passed_over(policy: StaticMemoryPolicy, several: list[Pod]) -> None:
    state = policy.initial_state()
    numbers = count()
    for pod in several:
        burstable = Container("extra", requests={MEMORY: 1}, limits={})
        pod = Pod(PodUid(f"p{next(numbers)}"), "n", "p", (*pod.containers, burstable), pod.init_containers)
        assert policy.pod_hints(state, pod) == {}
        state = admit(policy, state, pod, pick=0)
    assert state == policy.initial_state()


@pytest.mark.parametrize("nodes", [1, 2, 8])
def test_states_are_values(nodes: int) -> None:
    policy = static_policy(machine_memory({n: {MEMORY: 10} for n in range(nodes)}, {0: {MEMORY: 1}}))
    state = policy.initial_state()
    pod = one_container_pod("a", memory=2)
    first = policy.allocate(state, pod, pod.containers[0], affinity=Hint(1, preferred=True))
    assert state == policy.initial_state()
    again = policy.allocate(state, pod, pod.containers[0], affinity=Hint(1, preferred=True))
    assert first == again
