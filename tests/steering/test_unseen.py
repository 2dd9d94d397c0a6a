"""What init containers keep, and PodResources does not show, makes the state unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest
from numaplace.managers.admission import Scope
from numaplace.managers.device_manager import ContainerKind, PodUid
from numaplace.managers.pod import Container, Pod
from numaplace.model.names import CPU, MEMORY
from numaplace.steering.admission.init_containers import tied_in, unseen_in
from steering_machine import GIB, GPU, Hardware, Machine, per_node, request

HARDWARE = Hardware(2, (8, 8), (16, 16), {GPU: per_node(4, 4)})
KEY = ("default", "p")


def box(name, kind=ContainerKind.APP, *, cpus=2, gib=2, gpus=1):
    amounts = {CPU: 1000 * cpus, MEMORY: gib * GIB}
    amounts |= {GPU: gpus} if gpus else {}
    return Container(name, amounts, amounts, kind)


def unseen(*init, but=(), specs=None):
    """The pod's one container has 2 CPUs, 2 GiB and a GPU, and so it is listed."""
    machine = Machine(HARDWARE)
    machine.create("p", request(cpu=2, memory=2, gpu=1))
    pod = Pod(PodUid("p"), *KEY, (box("c0"),), init)
    known = {KEY: pod} if specs is None else specs
    found = unseen_in(machine.snapshot(), known, HARDWARE.steering_node(), but=but)
    return None if found is None else found.what


@pytest.mark.parametrize(("more", "resource"), [({"cpus": 5}, CPU), ({"gib": 3}, MEMORY), ({"gpus": 2}, GPU)])
def test_an_init_container_that_asks_for_more(more, resource):
    found = unseen(box("i", ContainerKind.INIT, **more))
    assert found == f"an init container of pod default/p keeps {resource} that List does not show"


@pytest.mark.parametrize(
    "init",
    [
        [],
        [box("i", ContainerKind.INIT)],
        [box("i", ContainerKind.INIT, cpus=1, gib=1, gpus=0), box("j", ContainerKind.INIT, gpus=0)],
    ],
)
def test_what_the_containers_take_over_is_shown(init):
    assert unseen(*init) is None


@pytest.mark.parametrize(
    ("init", "app", "scope", "tied"),
    [
        ({"cpus": 1, "gpus": 0}, {}, Scope.CONTAINER, True),
        ({"cpus": 1, "gpus": 0}, {}, Scope.POD, False),
        ({"cpus": 1, "gpus": 0}, {"gpus": 0}, Scope.CONTAINER, False),
        ({"cpus": 1, "gpus": 0}, {"cpus": 0}, Scope.CONTAINER, False),
        ({"cpus": 0, "gpus": 0}, {}, Scope.CONTAINER, False),
        ({"cpus": 1, "gpus": 1}, {}, Scope.CONTAINER, False),
        ({"cpus": 1, "gpus": 0, "kind": ContainerKind.SIDECAR}, {}, Scope.CONTAINER, False),
    ],
)
def test_an_init_container_that_settles_where_its_app_goes(init, app, scope, tied):
    """It is placed by its CPUs alone, and its app has to take these."""
    node = replace(HARDWARE, scope=scope).steering_node()
    pod = Pod(PodUid("p"), *KEY, (box("c0", **app),), (box("i", **{"kind": ContainerKind.INIT} | init),))
    assert (tied_in({KEY: pod}, node) is not None) is tied


def test_pods_that_are_not_known_or_not_done_say_nothing():
    greedy = box("i", ContainerKind.INIT, cpus=5)
    assert unseen(greedy, but={KEY}) is None
    assert unseen(greedy, specs={}) is None
