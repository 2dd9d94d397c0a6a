"""The emulator's simple CPU and memory bookkeeping."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numaplace.errors import AllocationError
from numaplace.kubelet.emulator.compute import Compute
from numaplace.kubelet.emulator.values import ContainerSpec, EmulatedNode
from numaplace.managers.device_manager import ContainerKind, PodUid
from numaplace.model.names import MEMORY, ResourceName
from numaplace.model.topology import NumaTopology

NODE = EmulatedNode(
    topology=NumaTopology(nodes=(0, 1), cpus={0: frozenset(range(4)), 1: frozenset(range(4, 8))}),
    memory_bytes={0: 10, 1: 10},
    reserved_cpus=frozenset({0}),
)
POD = PodUid("pod")
PAGES = ResourceName("hugepages-2Mi")


def test_init_containers_lend_their_cpus_and_memory() -> None:
    compute = Compute(NODE)
    spec = {name: ContainerSpec(name, cpus=6, memory_bytes=15) for name in ("init", "main", "more")}
    compute.allocate(POD, spec["init"], kind=ContainerKind.INIT, affinity=None)
    compute.allocate(POD, spec["main"], kind=ContainerKind.APP, affinity=None)
    assert compute.cpus(POD, "main") == compute.cpus(POD, "init")
    with pytest.raises(AllocationError) as refusal:
        compute.allocate(POD, spec["more"], kind=ContainerKind.APP, affinity=None)
    assert refusal.value.reason == "cpu"


def test_without_static_managers_nothing_is_shown() -> None:
    node = EmulatedNode(
        topology=NODE.topology, memory_bytes=NODE.memory_bytes, static_cpus=False, static_memory=False
    )
    compute = Compute(node)
    compute.allocate(
        POD, ContainerSpec("main", cpus=2, memory_bytes=5), kind=ContainerKind.APP, affinity=None
    )
    assert compute.cpus(POD, "main") == compute.allocatable_cpus == frozenset()
    assert compute.memory(POD, "main") == compute.allocatable_memory == ()


def test_memory_and_hugepages_of_a_container_are_from_the_same_nodes() -> None:
    """As the kubelet's memory manager: NUMA 0 has the memory, but not the pages, and is passed over."""
    node = replace(NODE, hugepages_bytes={PAGES: {0: 4, 1: 8}})
    compute = Compute(node)
    asked = {"one": 6, "both": 5}
    for name, pages in asked.items():
        spec = ContainerSpec(name, memory_bytes=1, hugepages_bytes={PAGES: pages})
        compute.allocate(POD, spec, kind=ContainerKind.APP, affinity=None)
    found = {name: {one.type: one.nodes for one in compute.memory(POD, name)} for name in asked}
    assert found == {"one": {MEMORY: (1,), PAGES: (1,)}, "both": {MEMORY: (0, 1), PAGES: (0, 1)}}


asks = st.tuples(st.integers(0, 4), st.integers(0, 12), st.none() | st.integers(1, 3))


@given(st.lists(asks, max_size=8))
def test_nothing_is_given_twice_or_beyond_what_there_is(requests: list[tuple[int, int, int | None]]) -> None:
    compute = Compute(NODE)
    given_cpus: list[frozenset[int]] = []
    given_bytes = 0
    for number, (cpus, size, affinity) in enumerate(requests):
        spec = ContainerSpec(f"c{number}", cpus=cpus, memory_bytes=size)
        try:
            compute.allocate(POD, spec, kind=ContainerKind.APP, affinity=affinity)
        except AllocationError:
            continue
        got = compute.cpus(POD, spec.name)
        assert len(got) == cpus
        assert got <= compute.allocatable_cpus
        assert all(got.isdisjoint(other) for other in given_cpus)
        given_cpus.append(got)
        given_bytes += sum(block.size_bytes for block in compute.memory(POD, spec.name))
    assert given_bytes <= 20
