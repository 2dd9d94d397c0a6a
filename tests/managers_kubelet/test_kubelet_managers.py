"""What stays of pods in the managers: after a refusal, after init containers, after the pod's end."""

from __future__ import annotations

import pytest
from numaplace.managers.admission import Scope
from numaplace.managers.device_manager import PodUid
from numaplace.model.names import CPU, MEMORY, ResourceName
from numaplace.simulate.scenario.records import Create, Delete
from numaplace.simulate.simulator.run import Simulator
from scenario_text import GIB, containers, create, scenario

GPU = ResourceName("example.com/gpu")


def allocated(simulator, resource):
    return [node.allocated[resource] for node in simulator.node.use()]


def play(simulator, *steps):
    return [simulator.play(step, number=number) for number, step in enumerate(steps)]


@pytest.mark.parametrize("scope", list(Scope))
def test_a_refused_pod_leaves_nothing(scope):
    # The second container finds no GPU: CPUs, memory and the GPU of the first one have to come back.
    simulator = Simulator(scenario(policy="best-effort", scope=scope))
    before = simulator.node.use()
    pod = create("p", containers=containers(a={GPU: 4, CPU: 2}, b={GPU: 1, CPU: 2}))
    (result,) = play(simulator, pod)
    assert not result.admitted
    assert simulator.node.use() == before


def test_a_deleted_pod_leaves_nothing():
    simulator = Simulator(scenario())
    before = simulator.node.use()
    pod = create("p", init=containers(i={CPU: 1}), containers=containers(a={GPU: 1, CPU: 2}))
    (result, _) = play(simulator, pod, Delete("p"))
    assert result.admitted
    assert simulator.node.use() == before


def test_memory_of_an_ended_init_container_is_free_again_its_cpus_and_devices_are_not():
    simulator = Simulator(scenario())
    pod = create(
        "p",
        init=containers(i={CPU: 3, MEMORY: 4 * GIB, GPU: 2}),
        containers=containers(a={CPU: 1, MEMORY: GIB, GPU: 1}),
    )
    (result,) = play(simulator, pod)
    assert result.admitted
    assert allocated(simulator, MEMORY) == [GIB, 0]
    assert allocated(simulator, CPU) == [3, 0]
    assert allocated(simulator, GPU) == [2, 0]


def test_a_sidecar_keeps_what_it_has():
    simulator = Simulator(scenario())
    pod = create(
        "p",
        init=containers(sidecar=True, i={CPU: 1, MEMORY: 2 * GIB, GPU: 1}),
        containers=containers(a={CPU: 1, MEMORY: GIB, GPU: 1}),
    )
    (result,) = play(simulator, pod)
    assert result.admitted
    assert allocated(simulator, MEMORY) == [3 * GIB, 0]
    assert allocated(simulator, GPU) == [2, 0]


def test_init_containers_hand_their_devices_and_cpus_on():
    simulator = Simulator(scenario())
    pod = create("p", init=containers(i={CPU: 2, GPU: 2}), containers=containers(a={CPU: 2, GPU: 2}))
    (result,) = play(simulator, pod)
    init, app = result.containers
    assert init.devices == app.devices
    assert init.cpus == app.cpus


def test_a_pod_that_is_created_again_is_another_pod():
    simulator = Simulator(scenario())
    first = create("p", number=0, containers=containers(a={GPU: 1, CPU: 1}))
    again = create("p", number=2, containers=containers(a={GPU: 2, CPU: 2}))
    (one, _, other) = play(simulator, first, Delete("p"), again)
    assert isinstance(again, Create)
    assert one.admitted
    assert other.admitted
    assert other.containers[0].devices[GPU].ids == ("gpu-0-0", "gpu-0-1")
    assert list(simulator.node.kubelet.pods) == [PodUid("p-2")]
