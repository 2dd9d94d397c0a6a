"""States from PodResources values, policies from what is allocatable, requests from pods, published sets."""

from __future__ import annotations

import pytest
from numaplace.managers.admission import Scope
from numaplace.managers.cpu.options import CpuPolicyOptions
from numaplace.managers.cpu.policy import NoneCpuPolicy
from numaplace.managers.cpu.topology import CpuDetail, CpuTopology
from numaplace.managers.memory.policies import NoneMemoryPolicy
from numaplace.model.device import Device
from numaplace.model.names import CPU, MEMORY, DeviceId
from numaplace.model.podresources import Allocatable, ContainerUse, DeviceBlock, MemoryBlock, PodUse
from numaplace.prediction.model import cpu_policy_from, memory_policy_from
from numaplace.prediction.request import Request, SeenRequests, seen_requests
from numaplace.prediction.state import DeviceGroup, StateUnknown, state_of
from numaplace.state.snapshot import build_snapshot
from numaplace.steering.published_topology import published
from steering_machine import GIB, GPU, VF, Hardware, Machine, per_node, request

HARDWARE = Hardware(2, (8, 8), (16, 16), {GPU: per_node(4, 4)})


def read(pods, *, allocatable=None, hardware=HARDWARE):
    node = hardware.steering_node()
    if allocatable is None:
        allocatable = Allocatable((), node.cpu.allocatable, node.memory.allocatable())
    snapshot = build_snapshot(
        topology=hardware.topology,
        allocatable=allocatable,
        pods=pods,
        devices=hardware.device_tables(),
        taken_at_seconds=0.0,
    )
    return state_of(snapshot, cpu=node.cpu, memory=node.memory)


def pod(name, *, cpus=(), memory=(), pod_cpus=(), pod_memory=()):
    return PodUse(
        "default",
        name,
        (ContainerUse("c", cpus=frozenset(cpus), memory=tuple(memory)),),
        frozenset(pod_cpus),
        tuple(pod_memory),
    )


def block(size_gib, *nodes, type_=MEMORY):
    return MemoryBlock(type_, size_gib * GIB, nodes)


def test_the_state_is_that_of_the_managers():
    hardware = Hardware(
        2, (8, 8), (16, 16), {GPU: ((0,), (0, 1), (1,), ())}, unhealthy=frozenset({DeviceId("gpu2")})
    )
    machine = Machine(hardware)
    machine.create("a", request(gpu=1, cpu=3, memory=4))
    machine.create("b", request(cpu=2, memory=1))
    state = machine.state()
    assert state.cpu.default_bits == machine.cpu.state.default_bits
    assert state.cpu.exclusive_bits == machine.cpu.state.exclusive_bits
    assert state.memory.machine == machine.memory.state.machine
    assert state.devices[GPU] == (
        DeviceGroup(0, 1, 1, 0),
        DeviceGroup(1, 1, 1, 1),
        DeviceGroup(2, 1, 0, 0),
        DeviceGroup(3, 1, 1, 0),
    )


def test_memory_over_several_nodes_ties_them():
    state = read([pod("a", memory=[block(20, 0, 1)])])
    machine = state.memory.machine
    assert machine.nodes[0].cells == machine.nodes[1].cells == (0, 1)
    assert sum(node.table(MEMORY).reserved for node in machine.nodes.values()) == 20 * GIB


@pytest.mark.parametrize(
    ("pods", "allocatable"),
    [
        ([pod("a", cpus=[1], pod_cpus=[1, 2])], None),
        ([pod("a", pod_memory=[block(1, 0)])], None),
        ([pod("a", cpus=[0])], None),
        ([pod("a", cpus=[999])], None),
        ([pod("a", memory=[block(17, 0)])], None),
        ([pod("a", memory=[block(1, 5)])], None),
        ([pod("a", memory=[block(1)])], None),
        ([pod("a", memory=[block(1, 0)]), pod("b", memory=[block(1, 0, 1)])], None),
        ([], Allocatable((), frozenset({1, 2}), HARDWARE.memory_policy().allocatable())),
        ([], Allocatable((), HARDWARE.cpu_policy().allocatable, (block(3, 0), block(16, 1)))),
    ],
    ids=[
        "pod-level CPUs",
        "pod-level memory",
        "reserved CPU",
        "no such CPU",
        "more memory than there is",
        "no such node",
        "memory of no node",
        "single node in a group",
        "other CPUs than configured",
        "other memory than configured",
    ],
)
def test_what_cannot_be_is_unknown(pods, allocatable):
    assert isinstance(read(pods, allocatable=allocatable), StateUnknown)


def test_exclusive_cpus_without_a_static_manager_are_unknown():
    assert isinstance(read([pod("a", cpus=[1])], hardware=Hardware(2, (), (16, 16))), StateUnknown)
    assert isinstance(read([pod("a", memory=[block(1, 0)])], hardware=Hardware(2, (8, 8), ())), StateUnknown)


def test_policies_follow_from_what_is_allocatable():
    topology, options = HARDWARE.topology, CpuPolicyOptions()
    cpus = CpuTopology.of(
        {cpu: CpuDetail(node, node, cpu, node) for node, held in topology.cpus.items() for cpu in held}
    )
    shown = Allocatable((), HARDWARE.cpu_policy().allocatable, HARDWARE.memory_policy().allocatable())
    cpu = cpu_policy_from(shown, cpus, options=options, static=True)
    assert cpu.allocatable == shown.cpus
    assert cpu == HARDWARE.cpu_policy()
    memory = memory_policy_from(shown, topology, static=True)
    assert memory.allocatable() == shown.memory
    assert memory.capacity == HARDWARE.memory_policy().capacity
    nothing = Allocatable()
    assert isinstance(cpu_policy_from(nothing, cpus, options=options, static=False), NoneCpuPolicy)
    assert isinstance(memory_policy_from(nothing, topology, static=False), NoneMemoryPolicy)
    assert cpu_policy_from(nothing, cpus, options=options, static=True) is None
    assert memory_policy_from(nothing, topology, static=True) is None
    assert cpu_policy_from(shown, cpus, options=options, static=False) is None
    assert memory_policy_from(shown, topology, static=False) is None


def held(name, *containers):
    return PodUse("default", name, tuple(containers))


def test_requests_of_pods():
    gpus = tuple(DeviceBlock(GPU, (DeviceId(name),), (0,)) for name in ("g0", "g1"))
    first = ContainerUse("a", gpus, frozenset({1, 2}), (block(3, 0),))
    second = ContainerUse("b", (DeviceBlock(VF, (DeviceId("v0"),)),))
    pods = [held("p", first, second), held("q", first, second), held("r", ContainerUse("c"))]
    assert seen_requests(pods) == (Request.of({GPU: 2, CPU: 2, MEMORY: 3 * GIB}, {VF: 1}),)
    assert [len(seen_requests(pods)[0].units(scope)) for scope in (Scope.CONTAINER, Scope.POD)] == [2, 1]


def test_seen_requests_are_remembered_once_and_only_of_complete_pods():
    one, other = (ContainerUse("c", (DeviceBlock(name, (DeviceId("d"),)),)) for name in (GPU, VF))
    pods = [held("p", one), held("q", other)]
    seen = SeenRequests().observed(pods, {("default", "p")})
    assert seen.requests == (Request.of({GPU: 1}),)
    assert seen.observed(pods, {("default", "p")}) is seen
    seen = seen.observed(pods, {("default", "p"), ("default", "q")})
    assert seen.requests == (Request.of({GPU: 1}), Request.of({VF: 1}))
    assert seen.observed([], set()).requests == seen.requests


def test_only_free_healthy_devices_of_withheld_nodes_show_no_topology():
    devices = {
        one.id: one
        for one in (
            Device(DeviceId("free"), (0,)),
            Device(DeviceId("used"), (0,)),
            Device(DeviceId("ill"), (0,), healthy=False),
            Device(DeviceId("both"), (0, 1)),
            Device(DeviceId("other"), (1,)),
        )
    }
    shown = published(devices, in_use={DeviceId("used")}, withheld=0b1)
    assert shown == {"free": (), "used": (0,), "ill": (0,), "both": (), "other": (1,)}
