"""Topology hints of devices: upstream's rows, and that they depend on numbers only."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numaplace.managers.device_hints import (
    HintRequest,
    container_device_hints,
    device_hints,
    pod_device_hints,
)
from numaplace.managers.device_manager import ContainerKind, ContainerRequest, DeviceManager, PodUid
from numaplace.managers.pod import Container, Pod
from numaplace.model.device import Device
from numaplace.model.mask import nodes_of
from numaplace.model.names import DeviceId, ResourceName
from yaml_text import read_yaml

CASES = read_yaml((Path(__file__).parent.parent / "cases/managers_kubelet/device_hints.yaml").read_text())
GPU = ResourceName("example.com/gpu")
UID = PodUid("pod")


def rows(section):
    return [pytest.param(case, id=case["id"]) for case in CASES[section]]


def shown(hints, like):
    """Hints in the form of the cases; scores only where the case states them."""
    if hints is None:
        return None
    scored = bool(like) and len(like[0]) == 3
    return [[list(nodes_of(hint.mask)), hint.preferred, *([hint.score] if scored else [])] for hint in hints]


def make_manager(case):
    manager = DeviceManager()
    manager.publish(GPU, [Device(DeviceId(id_), tuple(nodes)) for id_, nodes in case["devices"].items()])
    for name, size in case.get("held", {}).items():
        for _ in manager.allocate(ContainerRequest(UID, name, ((GPU, size),)), active=[UID]):
            pass
    return manager


@pytest.mark.parametrize("case", rows("getCommonTestCases"))
def test_hints_of_a_container(case):
    container = Container("main", limits={GPU: case["size"], ResourceName("not/registered"): 1})
    pod = Pod(UID, "default", "pod", (container,))
    hints = container_device_hints(make_manager(case), pod, container, numa_nodes=(0, 1))
    assert list(hints) == [GPU]
    assert shown(hints[GPU], case["hints"]) == case["hints"]


@pytest.mark.parametrize(
    "case", [case for case in rows("getCommonTestCases") if "held" not in case.values[0]]
)
def test_hints_of_a_pod_with_one_container_are_those_of_the_container(case):
    container = Container("main", limits={GPU: case["size"]})
    pod = Pod(UID, "default", "pod", (container,))
    hints = pod_device_hints(make_manager(case), pod, numa_nodes=(0, 1))
    assert shown(hints[GPU], case["hints"]) == case["hints"]


@pytest.mark.parametrize(
    ("init", "size"),
    [
        ([(1, ContainerKind.INIT), (4, ContainerKind.INIT)], 4),
        ([(1, ContainerKind.INIT)], 2),
        ([(1, ContainerKind.SIDECAR), (2, ContainerKind.INIT)], 3),
        ([(2, ContainerKind.INIT), (1, ContainerKind.SIDECAR)], 3),
    ],
)
def test_a_pod_asks_for_what_it_needs_at_its_hungriest(init, size):
    manager = make_manager({"devices": {f"d{n}": [0 if n < size else 1] for n in range(2 * size - 1)}})
    pod = Pod(
        UID,
        "default",
        "pod",
        (Container("a", limits={GPU: 1}), Container("b", limits={GPU: 1})),
        tuple(Container(f"i{n}", limits={GPU: amount}, kind=kind) for n, (amount, kind) in enumerate(init)),
    )
    hints = pod_device_hints(manager, pod, numa_nodes=(0, 1))[GPU]
    assert [(hint.mask, hint.preferred) for hint in hints] == [(0b01, True), (0b11, False)]


@pytest.mark.parametrize("case", rows("generateDeviceTopologyHints") + rows("scores"))
def test_hints_of_numbers(case):
    unhealthy, in_use = case.get("unhealthy", []), case.get("in_use", [])
    devices = {
        DeviceId(id_): Device(DeviceId(id_), tuple(nodes), healthy=id_ not in unhealthy)
        for id_, nodes in case["devices"].items()
    }
    free = frozenset(id_ for id_, device in devices.items() if device.healthy and id_ not in in_use)
    request = HintRequest(case["size"], free, frozenset(case.get("reusable", ())), frozenset(in_use))
    hints = device_hints(request, devices, numa_nodes=tuple(range(case["numa"])))
    assert shown(hints, case["hints"]) == case["hints"]


@st.composite
def machines(draw):
    """Devices on up to three of four nodes, some in use, some unhealthy."""
    number = draw(st.integers(1, 10))
    devices, in_use = {}, set()
    for index in range(number):
        id_ = DeviceId(f"d{index}")
        nodes = draw(st.sets(st.integers(0, 3), max_size=2))
        devices[id_] = Device(id_, tuple(sorted(nodes)), healthy=draw(st.booleans()))
        if draw(st.booleans()):
            in_use.add(id_)
    return devices, frozenset(in_use)


@given(machines(), st.integers(1, 6))
def test_a_hint_holds_the_request_and_a_preferred_one_is_as_narrow_as_the_hardware_allows(machine, size):
    devices, in_use = machine
    free = frozenset(id_ for id_, device in devices.items() if device.healthy) - in_use
    hints = device_hints(HintRequest(size, free, in_use=in_use), devices, numa_nodes=(0, 1, 2, 3))
    for hint in hints:
        nodes = set(nodes_of(hint.mask))
        assert sum(1 for id_ in free if nodes & set(devices[id_].nodes)) >= size
        assert 0 <= hint.score <= 100
    preferred = [hint for hint in hints if hint.preferred]
    assert len({hint.mask.bit_count() for hint in preferred}) <= 1
    if preferred:
        assert preferred[0].mask.bit_count() == min(hint.mask.bit_count() for hint in hints)
