"""The kubelet's steps for one resource of one container: numbered cases as data, and what always holds."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numaplace.errors import AllocationError
from numaplace.managers.devices import AllocationRequest, PickOrder, PreferredCall, devices_to_allocate
from numaplace.model.device import Device
from numaplace.model.mask import mask_of
from numaplace.model.names import DeviceId, ResourceName
from yaml_text import read_yaml

CASES = read_yaml((Path(__file__).parents[1] / "cases/managers/device_steps.yaml").read_text())
RESOURCE = ResourceName("example.com/vf")


def ids(names: Sequence[str]) -> frozenset[DeviceId]:
    return frozenset(DeviceId(name) for name in names)


def request_of(case: Mapping[str, Any]) -> AllocationRequest:
    devices = None
    if "devices" in case:
        devices = {
            DeviceId(name): Device(
                id=DeviceId(name), nodes=tuple(nodes), healthy=name not in case.get("unhealthy", ())
            )
            for name, nodes in case["devices"].items()
        }
    return AllocationRequest(
        resource=RESOURCE,
        size=case["size"],
        devices=devices,
        in_use=ids(case.get("in_use", ())),
        held=ids(case["held"]) if "held" in case else None,
        reusable=ids(case.get("reusable", ())),
        affinity=mask_of(case["affinity"]) if "affinity" in case else None,
        already_running=case.get("already_running", False),
    )


def play(
    request: AllocationRequest, reply: Sequence[str] | None, pick: PickOrder | None = None
) -> tuple[list[PreferredCall], frozenset[DeviceId]]:
    """Answer every call with ``reply``; return the calls and the devices."""
    steps = devices_to_allocate(request, pick) if pick else devices_to_allocate(request)
    calls: list[PreferredCall] = []
    answer: Sequence[DeviceId] | None = None
    while True:
        try:
            calls.append(steps.send(answer))
        except StopIteration as end:
            return calls, end.value
        answer = None if reply is None else [DeviceId(one) for one in reply]


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_case(case: Mapping[str, Any]) -> None:
    request = request_of(case)
    if "refused" in case:
        with pytest.raises(AllocationError) as refusal:
            play(request, case.get("reply"))
        assert refusal.value.reason == case["refused"]
        return
    calls, chosen = play(request, case.get("reply"))
    expected = [case["call"]] if "call" in case else []
    assert [
        {"available": list(call.available), "must_include": list(call.must_include), "size": call.size}
        for call in calls
    ] == expected
    assert sorted(chosen) == case["chosen"]


NAMES = [f"d{number}" for number in range(8)]
some_names = st.sets(st.sampled_from(NAMES))


@st.composite
def requests(draw: st.DrawFn) -> AllocationRequest:
    devices = {
        DeviceId(name): Device(
            id=DeviceId(name),
            nodes=tuple(sorted(draw(st.sets(st.integers(0, 3), max_size=2)))),
            healthy=draw(st.booleans()),
        )
        for name in draw(some_names)
    }
    reusable = draw(st.sets(st.sampled_from(sorted(devices)), max_size=3)) if devices else set()
    in_use = draw(st.sets(st.sampled_from(sorted(devices)))) if devices else set()
    return AllocationRequest(
        resource=RESOURCE,
        size=draw(st.integers(1, 5)),
        devices=devices,
        in_use=frozenset(in_use | reusable),
        reusable=frozenset(reusable),
        affinity=draw(st.none() | st.integers(1, 15)),
    )


def shuffled(seed: int) -> PickOrder:
    source = random.Random(seed)

    def pick(some: Any) -> list[DeviceId]:
        walked = sorted(some)
        source.shuffle(walked)
        return walked

    return pick


@given(requests(), st.none() | st.lists(st.sampled_from([*NAMES, "ghost"])), st.integers(0, 9))
def test_result_is_exact_and_drawn_from_what_is_free(
    request: AllocationRequest, reply: list[str] | None, seed: int
) -> None:
    healthy = {one.id for one in (request.devices or {}).values() if one.healthy}
    free = healthy - request.in_use
    try:
        calls, chosen = play(request, reply, shuffled(seed))
    except AllocationError:
        assert not healthy or len(free) + len(request.reusable) < request.size
        return
    assert len(chosen) == request.size
    assert chosen <= free | request.reusable
    assert len(chosen & request.reusable) == min(request.size, len(request.reusable))
    for call in calls:
        assert set(call.must_include) <= chosen
        assert set(call.must_include) < set(call.available)
        assert call.size == request.size


@given(requests(), st.data())
def test_a_well_formed_reply_is_followed_exactly(request: AllocationRequest, data: st.DataObject) -> None:
    steps = devices_to_allocate(request)
    try:
        call = next(steps)
    except (AllocationError, StopIteration):
        return
    others = sorted(set(call.available) - set(call.must_include))
    count = call.size - len(call.must_include)
    reply = [*call.must_include, *data.draw(st.permutations(others))[:count]]
    with pytest.raises(StopIteration) as end:
        steps.send(reply)
    assert end.value.value == frozenset(reply)


@given(requests())
def test_the_mask_is_honoured_before_anything_else(request: AllocationRequest) -> None:
    try:
        _, chosen = play(request, None)
    except AllocationError:
        return
    if request.affinity is None or request.devices is None:
        return
    aligned = {one.id for one in request.devices.values() if one.healthy and one.mask & request.affinity}
    aligned -= request.in_use
    left = request.size - min(request.size, len(request.reusable))
    assert len(chosen & aligned) == min(left, len(aligned))
