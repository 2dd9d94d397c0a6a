"""The device manager across containers, pods, plugin losses and restarts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numaplace.errors import AllocationError, PeerError
from numaplace.managers.device_manager import (
    AllocateCall,
    Call,
    ContainerKind,
    ContainerRequest,
    DeviceManager,
    PodUid,
)
from numaplace.managers.devices import PreferredCall
from numaplace.model.device import Device
from numaplace.model.names import DeviceId, ResourceName

VF = ResourceName("example.com/vf")
GPU = ResourceName("example.com/gpu")
POD, OTHER = PodUid("pod"), PodUid("other")

Answer = Callable[[Call], Sequence[DeviceId] | None]


def no_preference(call: Call) -> None:
    return None


def make(count: int = 4, resource: ResourceName = VF) -> DeviceManager:
    manager = DeviceManager()
    manager.publish(resource, [Device(id=DeviceId(f"d{n}"), nodes=(n // 2,)) for n in range(count)])
    return manager


def admit(
    manager: DeviceManager,
    name: str = "main",
    size: int = 1,
    *,
    kind: ContainerKind = ContainerKind.APP,
    pod: PodUid = POD,
    active: Sequence[PodUid] = (POD, OTHER),
    answer: Answer = no_preference,
    resources: tuple[tuple[ResourceName, int], ...] | None = None,
) -> list[Call]:
    """Admit one container; an exception that ``answer`` raises is the plugin's failure."""
    request = ContainerRequest(pod=pod, name=name, resources=resources or ((VF, size),), kind=kind)
    steps = manager.allocate(request, active=active)
    calls = []
    try:
        call = next(steps)
        while True:
            calls.append(call)
            try:
                reply = answer(call)
            except PeerError as failure:
                call = steps.throw(failure)
            else:
                call = steps.send(reply)
    except StopIteration:
        return calls


def held(manager: DeviceManager, name: str = "main", pod: PodUid = POD) -> set[DeviceId]:
    return set(manager.held(pod, name).get(VF, {}))


def preferred(calls: Sequence[Call]) -> list[PreferredCall]:
    return [call for call in calls if isinstance(call, PreferredCall)]


def test_init_container_devices_are_reused_without_a_call() -> None:
    manager = make()
    assert len(preferred(admit(manager, "init", 2, kind=ContainerKind.INIT))) == 1
    calls = admit(manager, "main", 2)
    assert preferred(calls) == []
    assert held(manager) == held(manager, "init")


def test_reused_devices_must_be_included_when_more_are_needed() -> None:
    manager = make()
    admit(manager, "init", 1, kind=ContainerKind.INIT)
    (call,) = preferred(admit(manager, "main", 3))
    assert set(call.must_include) == held(manager, "init")
    assert call.size == 3
    assert held(manager) > held(manager, "init")


def test_a_device_is_reused_by_one_app_container_only() -> None:
    manager = make()
    admit(manager, "init", 1, kind=ContainerKind.INIT)
    admit(manager, "one")
    admit(manager, "two")
    assert held(manager, "one") == held(manager, "init")
    assert not held(manager, "two") & held(manager, "one")


def test_sidecars_keep_their_devices() -> None:
    manager = make(2)
    admit(manager, "sidecar", 1, kind=ContainerKind.SIDECAR)
    admit(manager, "main", 1)
    assert not held(manager, "sidecar") & held(manager)
    with pytest.raises(AllocationError, match="0 are free"):
        admit(manager, "more", 1)


def test_init_devices_are_not_reused_by_another_pod() -> None:
    manager = make()
    admit(manager, "init", 1, kind=ContainerKind.INIT)
    admit(manager, "main", 1, pod=OTHER)
    assert not held(manager, "main", OTHER) & held(manager, "init")


def test_devices_come_free_when_the_next_pod_asks() -> None:
    manager = make(1)
    admit(manager, pod=OTHER)
    assert manager.free(VF) == frozenset()
    admit(manager, active=[POD])
    assert held(manager) == {"d0"}
    assert held(manager, pod=OTHER) == set()


def test_topology_is_remembered_as_it_was_when_the_plugin_allocated() -> None:
    manager = make(1)

    def withhold_then_allow(call: Call) -> None:
        if isinstance(call, AllocateCall):
            manager.publish(VF, [Device(id=DeviceId("d0"))])

    admit(manager, answer=withhold_then_allow)
    manager.publish(VF, [Device(id=DeviceId("d0"), nodes=(1,))])
    assert manager.held(POD, "main") == {VF: {"d0": ()}}


def test_an_unregistered_resource_is_passed_over() -> None:
    manager = make()
    calls = admit(manager, resources=((GPU, 1), (VF, 1)))
    assert {call.resource for call in calls} == {VF}


def test_a_lost_plugin_leaves_the_resource_without_healthy_devices() -> None:
    manager = make()
    manager.lose(VF)
    with pytest.raises(AllocationError) as refusal:
        admit(manager)
    assert refusal.value.reason == "no-healthy-devices"
    manager.forget(VF)
    assert admit(manager) == []


def test_a_plugin_lost_before_its_first_message_leaves_nothing() -> None:
    manager = DeviceManager()
    manager.lose(VF)
    assert manager.resources == ()
    assert admit(manager) == []


def test_restart_keeps_allocations_and_waits_for_the_plugins() -> None:
    manager = make(2)
    admit(manager)
    before = held(manager)
    manager.restart()
    assert held(manager) == before
    with pytest.raises(AllocationError) as refusal:
        admit(manager, pod=OTHER)
    assert refusal.value.reason == "no-healthy-devices"
    manager.publish(VF, [Device(id=DeviceId(f"d{n}")) for n in range(2)])
    admit(manager, pod=OTHER)
    assert held(manager, pod=OTHER).isdisjoint(before)
    assert admit(manager) == [], "the container that holds its devices needs no call"


def fail_on(kind: type[Call]) -> Answer:
    def answer(call: Call) -> None:
        if isinstance(call, kind):
            raise PeerError("the plugin failed")

    return answer


def test_a_failed_allocate_frees_the_devices_at_once() -> None:
    manager = make(2)
    with pytest.raises(PeerError):
        admit(manager, answer=fail_on(AllocateCall))
    assert manager.free(VF) == {"d0", "d1"}


def test_a_failed_preference_leaves_aligned_devices_marked_until_the_next_recount() -> None:
    manager = make(4)
    request = ContainerRequest(pod=POD, name="main", resources=((VF, 3),), affinity=0b01)
    steps = manager.allocate(request, active=[POD])
    call = next(steps)
    assert isinstance(call, PreferredCall)
    with pytest.raises(PeerError):
        steps.throw(PeerError("the plugin failed"))
    assert manager.free(VF) == {"d2", "d3"}
    admit(manager, "other", 1, pod=OTHER)
    manager.release_inactive([])
    assert len(manager.free(VF)) == 4


@given(st.lists(st.tuples(st.sampled_from(list(ContainerKind)), st.integers(0, 3)), max_size=6))
def test_containers_that_run_together_share_no_device(containers: list[tuple[ContainerKind, int]]) -> None:
    manager = make(8)
    ordered = sorted(enumerate(containers), key=lambda one: one[1][0] is ContainerKind.APP)
    running: list[set[DeviceId]] = []
    for number, (kind, size) in ordered:
        try:
            admit(manager, f"c{number}", size, kind=kind)
        except AllocationError:
            return
        got = held(manager, f"c{number}")
        assert len(got) == size
        assert all(got.isdisjoint(others) for others in running)
        if kind is not ContainerKind.INIT:
            running.append(got)


def test_an_adopted_allocation_is_like_one_of_its_own():
    manager = make(4)
    manager.adopt(OTHER, "main", resource=VF, nodes={DeviceId("d0"): (0,), DeviceId("d2"): (1,)})
    assert manager.free(VF) == {"d1", "d3"}
    assert manager.held(OTHER, "main") == {VF: {"d0": (0,), "d2": (1,)}}
    manager.release_inactive([POD])
    assert manager.free(VF) == {"d0", "d1", "d2", "d3"}
