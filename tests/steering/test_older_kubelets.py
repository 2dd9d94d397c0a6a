"""Kubelets before 1.36 make device hints over all NUMA nodes; which one it is is not known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from effort import in_chunks
from hypothesis import given
from hypothesis import strategies as st
from numaplace.engine.options import PolicyName
from numaplace.managers.device_hints import HintRequest, device_hints
from numaplace.model.device import Device
from numaplace.model.names import DeviceId
from numaplace.steering.choose import choose
from test_never_worse import assert_not_worse, case


@pytest.mark.parametrize("policy", [PolicyName.BEST_EFFORT, PolicyName.SINGLE_NUMA_NODE])
@in_chunks(600, size=200)
def test_no_request_comes_off_worse_on_one_either(policy, seeds):
    steered = 0
    for seed in seeds:
        machine, requests, settings = case(seed, even=seed % 2 > 0)
        if machine.hardware.policy is not policy:
            continue
        decision = choose(machine.hardware.steering_node(), machine.states(), requests, settings=settings)
        if decision.withheld:
            steered += 1
            for older in (True, False):
                machine.hardware = replace(machine.hardware, hints_over_all_nodes=older)
                assert_not_worse(machine, requests, decision.withheld)
    assert steered > 2


@given(
    st.lists(st.integers(-1, 3), min_size=1, max_size=8),
    st.sets(st.integers(0, 7)),
    st.integers(1, 5),
)
def test_the_same_hints_are_preferred(nodes, taken, size):
    devices = {
        DeviceId(f"d{number}"): Device(DeviceId(f"d{number}"), (node,) if node >= 0 else ())
        for number, node in enumerate(nodes)
    }
    available = frozenset(one for number, one in enumerate(devices) if number not in taken)
    request = HintRequest(size, available)
    if len(available) < size or not any(device.nodes for device in devices.values()):
        return
    new, old = (
        device_hints(request, devices, numa_nodes=(0, 1, 2, 3), over_all_nodes=older)
        for older in (False, True)
    )
    assert [one for one in new if one.preferred] == [one for one in old if one.preferred]
    assert {one.mask for one in new} <= {one.mask for one in old}
