"""Where a static CPU manager without a Topology Manager takes CPUs from, told before it does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numaplace.engine.options import PolicyName
from numaplace.managers.cpu.options import CpuPolicyOptions
from numaplace.managers.pod import Container, Pod
from numaplace.model.mask import mask_of, nodes_of
from numaplace.model.names import CPU, MEMORY
from numaplace.prediction.cpus import cpus_ahead
from numaplace.prediction.state import cpu_state_of
from steering_machine import GIB, Hardware, Machine, request

HARDWARE = Hardware(3, cpus=(8, 8, 8), memory_gib=(), policy=PolicyName.NONE)


def ahead(machine, pod, container="c0"):
    policy = machine.cpu.policy
    state = cpu_state_of(machine.snapshot(), policy)
    return cpus_ahead(policy, state, pod, container, topology=machine.topology)


@given(
    sizes=st.lists(st.integers(0, 12), min_size=1, max_size=10),
    gone=st.sets(st.integers(0, 9)),
    spread=st.booleans(),
)
def test_it_is_where_the_cpus_then_are(sizes, gone, spread):
    options = CpuPolicyOptions(distribute_across_numa=spread)
    machine = Machine(Hardware(3, (8, 8, 8), (), policy=PolicyName.NONE, cpu_options=options))
    for number, cpus in enumerate(sizes):
        wanted = request(cpu=cpus, memory=1)
        expected = ahead(machine, wanted.pod())
        name = f"pod{number}"
        got = (
            machine.cpu.state.cpus(name, "c0") or frozenset()
            if machine.create(name, wanted).admitted
            else frozenset()
        )
        node_of_cpu = machine.topology.node_of_cpu()
        assert expected == mask_of({node_of_cpu[cpu] for cpu in got})
        if number in gone:
            machine.delete(name)


def test_a_burstable_container_has_no_cpus_of_its_own():
    container = Container("c0", {CPU: 2000, MEMORY: GIB}, {CPU: 4000, MEMORY: GIB})
    assert ahead(Machine(HARDWARE), Pod("uid", "default", "p", (container,))) == 0


def test_each_container_is_asked_for_by_its_name():
    pod = Pod("uid", "d", "p", tuple(Container(n, {CPU: 1000 * c, MEMORY: GIB}, {CPU: 1000 * c, MEMORY: GIB})
                                     for n, c in (("a", 2), ("b", 8))))  # fmt: skip
    machine = Machine(HARDWARE)
    assert (nodes_of(ahead(machine, pod, "a")), nodes_of(ahead(machine, pod, "b"))) == ((0,), (0,))
    assert ahead(machine, pod, "unheard-of") == 0


@pytest.mark.parametrize(("nodes", "spread", "told"), [(8, True, True), (9, False, True), (9, True, False)])
def test_what_would_take_too_long_is_not_told(nodes, spread, told):
    options = CpuPolicyOptions(distribute_across_numa=spread)
    sizes = (4,) * nodes
    machine = Machine(Hardware(nodes, sizes, (), policy=PolicyName.NONE, cpu_options=options))
    assert bool(ahead(machine, request(cpu=2, memory=1).pod())) is told
