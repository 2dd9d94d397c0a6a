"""Pods that come while a set is in force that was not made for them."""

from __future__ import annotations

import pytest
from numaplace.engine.options import PolicyName
from numaplace.managers.device_manager import ContainerKind, PodUid
from numaplace.managers.pod import Container, Pod
from numaplace.model.names import CPU, MEMORY
from numaplace.steering.admission.announced import invalidates
from steering_machine import GIB, GPU, NIC, Hardware, Machine, per_node, request

DEVICES = {GPU: per_node(4, 4), NIC: per_node(1, 0)}
WITHHELD = {GPU: 0b1}


def box(name, kind=ContainerKind.APP, **devices):
    amounts = {CPU: 2000, MEMORY: GIB, **({GPU: 1} if kind is ContainerKind.APP else {})}
    amounts |= {NIC: devices["nic"]} if devices else {}
    return Container(name, amounts, amounts, kind)


def pod(*init, **devices):
    return Pod(PodUid("x"), "default", "x", (box("main", **devices),), init)


def outcomes(hardware, one):
    """Whether the kubelet admits the pod without and with the set, and whether the set is given up for it."""
    admitted = []
    for withheld in ({}, WITHHELD):
        machine = Machine(hardware)
        machine.publish(withheld)
        admitted.append(machine.kubelet.admit(one).admitted)
    return admitted


def gives_up(hardware, one):
    return invalidates(
        [one],
        hardware.steering_node(),
        Machine(hardware).state(),
        requests=[request(gpu=1)],
        withheld=WITHHELD,
    )


@pytest.mark.parametrize("policy", [PolicyName.SINGLE_NUMA_NODE, PolicyName.RESTRICTED])
def test_devices_of_a_plugin_that_was_not_there_when_the_set_was_made(policy):
    before = Hardware(2, (8, 8), (16, 16), {GPU: DEVICES[GPU]}, policy=policy)
    now = Hardware(2, (8, 8), (16, 16), DEVICES, policy=policy)
    one = pod(nic=1)
    assert outcomes(now, one) == [True, False]
    assert gives_up(before, one)


@pytest.mark.parametrize("policy", [PolicyName.SINGLE_NUMA_NODE, PolicyName.RESTRICTED])
def test_an_init_container_that_settles_where_the_devices_are_from(policy):
    hardware = Hardware(2, (8, 8), (16, 16), {GPU: DEVICES[GPU]}, policy=policy)
    one = pod(box("init", ContainerKind.INIT))
    assert outcomes(hardware, one) == [True, False]
    assert gives_up(hardware, one)


def test_a_pod_that_fits_as_well_changes_nothing():
    hardware = Hardware(2, (8, 8), (16, 16), {GPU: DEVICES[GPU]})
    assert outcomes(hardware, pod()) == [True, True]
    assert not gives_up(hardware, pod())
