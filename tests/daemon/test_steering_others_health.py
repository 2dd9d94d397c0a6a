"""Other plugins' devices: their health is asked for as often as it matters."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from numaplace.daemon.steering.context import SteeringContext
from numaplace.daemon.steering.requests import PossibleRequests
from numaplace.daemon.steering.settings import Settings
from numaplace.daemon.steering.times import Times
from numaplace.engine.options import PolicyName
from numaplace.managers.cpu.policy import NoneCpuPolicy
from numaplace.managers.memory.machine import machine_memory
from numaplace.managers.memory.policies import NoneMemoryPolicy
from numaplace.model.names import CPU, DeviceId, ResourceName
from numaplace.model.observation import Observation
from numaplace.model.podresources import Allocatable, ContainerUse, DeviceBlock, PodUse
from numaplace.model.topology import NumaTopology
from numaplace.prediction.model import KubeletModel
from numaplace.prediction.request import Request
from numaplace.steering.choose import SteeringSettings

GPU, NIC = ResourceName("example.com/gpu"), ResourceName("vendor.example/nic")
NODES = (0, 1)


def followed(*declared, policy=PolicyName.BEST_EFFORT, seen=(), registered=(GPU, NIC)):
    """Return whether the health of other plugins' devices is followed."""
    told = []
    devices = tuple(
        DeviceBlock(resource, frozenset({DeviceId(f"{resource}-{node}")}), (node,))
        for resource in registered
        for node in NODES
    )
    pods = tuple(
        PodUse("d", f"p{number}", (ContainerUse("main", devices=(devices[at],)),))
        for number, at in enumerate(seen)
    )
    observation = Observation(pods, Allocatable(devices=devices), 1.0)
    context = SteeringContext(
        dict,
        SimpleNamespace(now=SimpleNamespace(observation=observation, moving=frozenset())),
        SimpleNamespace(follow_allocatable=lambda *, on: told.append(on)),
        None,
        report=None,
        clock=lambda: 2.0,
        times=Times(),
    )
    memory = NoneMemoryPolicy(machine_memory({node: {} for node in NODES}, {}))
    node = KubeletModel(
        NumaTopology(NODES), policy, cpu=NoneCpuPolicy(), memory=memory, steerable=frozenset({GPU})
    )
    PossibleRequests(context).update(node, Settings(True, SteeringSettings(), declared))
    return told[-1]


def test_it_matters_where_a_request_names_them():
    assert not followed(Request.of({GPU: 1, CPU: 1}))
    assert followed(Request.of({GPU: 1}), Request.of({GPU: 1, NIC: 1}))


def test_a_plugin_that_registers_late_is_waited_for():
    """Until its devices are seen, a set is right only for a request without them."""
    assert followed(Request.of({GPU: 1, NIC: 1, CPU: 1}), registered=[GPU])


def test_it_matters_where_a_request_may_come_that_names_them():
    assert followed(seen=[0])


@pytest.mark.parametrize("policy", [PolicyName.NONE, None])
def test_it_matters_not_where_nothing_is_decided(policy):
    assert not followed(Request.of({GPU: 1, NIC: 1}), policy=policy)
