"""A pod that has ended, by what the API server said last, and another one of its name."""

from __future__ import annotations

import time

import pytest
from daemon_site import GPU, NODES
from numaplace.daemon.node_state import NodeStateHolder
from numaplace.model.device import Device
from numaplace.model.names import DeviceId
from numaplace.model.observation import Observation
from numaplace.model.podresources import Allocatable, ContainerUse, DeviceBlock, PodUse
from numaplace.model.topology import NumaTopology
from numaplace.state.attribution import Specs
from numaplace.state.ended_pods import EndedPodsLog

POD = ("default", "p")
A, B = DeviceId("a"), DeviceId("b")


def listed(*ids, cpus=()):
    blocks = (DeviceBlock(GPU, ids),) if ids else ()
    return [PodUse(*POD, (ContainerUse("c", blocks, frozenset(cpus)),))]


@pytest.fixture
def keeper():
    made = NodeStateHolder(NumaTopology(NODES), clock=time.monotonic)
    made.set_devices(GPU, [Device(A, (0,)), Device(B, (1,))])
    return made


def see(keeper, pods, *, allocatable=None):
    keeper.observed(Observation(tuple(pods), allocatable or Allocatable(), time.monotonic()))


def in_use(keeper):
    return keeper.now.in_use(GPU, terminal={POD})


def test_an_old_kubelet_lists_a_pod_that_has_ended(keeper):
    see(keeper, listed(A, cpus=[1, 2]))
    keeper.announced(Specs({}, {POD}))
    for pods in (listed(A, cpus=[1, 2]), listed(A), listed(A)):
        see(keeper, pods)
        assert in_use(keeper) == set()


@pytest.mark.parametrize("lists", [[listed(B)], [[], listed(A)], [[], listed(), listed(A)], [listed(A, B)]])
def test_another_pod_of_that_name_holds_what_it_is_shown_with(keeper, lists):
    see(keeper, listed(A))
    keeper.announced(Specs({}, {POD}))
    for pods in lists:
        see(keeper, pods)
    assert in_use(keeper) == {
        one for pod in lists[-1] for block in pod.containers[0].devices for one in block.ids
    }


def test_another_pod_with_the_same_devices_was_given_them(keeper):
    """No List has come in between."""
    see(keeper, listed(A))
    keeper.announced(Specs({}, {POD}))
    keeper.granted(GPU, (A,))
    see(keeper, listed(A))
    assert in_use(keeper) == {A}


def test_before_the_first_list_nothing_is_known_of_its_name(keeper):
    keeper.announced(Specs({}, {POD}))
    see(keeper, listed(A))
    keeper.announced(Specs({}, {POD}))
    assert in_use(keeper) == set()


def test_the_api_server_tells_of_the_other_pod_and_of_its_end():
    log = EndedPodsLog().told({POD}, listed(A)).observed([]).observed(listed(B))
    assert log.followed == {POD}
    log = log.told((), listed(B))
    assert log.followed == set()
    assert log.told({POD}, listed(B)).observed(listed(B)).followed == set()
