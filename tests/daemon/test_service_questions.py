"""How an Allocate is matched with the question before it."""

from __future__ import annotations

import asyncio
import time
from itertools import count

import pytest
from daemon_site import GPU, NODES, VF, RecordedLog, until
from numaplace.daemon.node_state import NodeStateHolder
from numaplace.daemon.resources.context import ResourceContext, ResourceSettings
from numaplace.daemon.resources.host_supply import MAX_GONE, HostSupply
from numaplace.daemon.resources.service import ResourceService
from numaplace.devices.scan import Scan
from numaplace.errors import PeerError
from numaplace.kubelet.directories import DirectoryWatch
from numaplace.kubelet.plugin.preference import fallback
from numaplace.metrics.metrics import Metrics
from numaplace.model.device import Device
from numaplace.model.names import DeviceId
from numaplace.model.observation import Observation
from numaplace.model.podresources import Allocatable, ContainerUse, DeviceBlock, PodUse
from numaplace.model.topology import NumaTopology

SETTINGS = ResourceSettings(None, 30.0)
IDS = tuple(DeviceId(name) for name in "ab")


class Source:
    watch_paths = ()

    def scan(self):
        return Scan(tuple(Device(one, (0,)) for one in IDS))


class Steering:
    """Notes how old a List may be that shows who is asking."""

    def __init__(self):
        self.since = []

    def active(self):
        pass

    def reset(self):
        pass

    def kubelet_lost(self):
        pass

    def lost_alignment(self, resource):
        return False

    async def deliver_next(self, resource, ids, *, since_seconds):
        self.since.append(since_seconds)


class Decider:
    def __init__(self, node_state):
        self.node_state = node_state

    async def decide(self, ask):
        ids = fallback(ask.available, ask.must_include, ask.size)
        self.node_state.answered(ask.resource, ids, requester=None, asked_at_seconds=ask.asked_at_seconds)
        return ids


def context_of(steering, *, clock):
    node_state = NodeStateHolder(NumaTopology(NODES), clock=clock)
    node_state.observed(Observation((), Allocatable(), 0.0))
    return ResourceContext(
        node_state,
        Decider(node_state),
        steering,
        DirectoryWatch(on_degraded=pytest.fail),
        Metrics(version="test", clock=time.monotonic),
        RecordedLog(),
        clock,
    )


@pytest.fixture
def steering():
    return Steering()


@pytest.fixture
def clock():
    """Each look at it is a second later."""
    ticks = count(1000)
    return lambda: float(next(ticks))


@pytest.fixture
async def service(steering, clock):
    context = context_of(steering, clock=clock)
    supply = HostSupply(GPU, Source(), context, SETTINGS)
    await supply.look()
    return ResourceService(GPU, supply, context, SETTINGS)


async def test_a_list_since_the_question_shows_who_asks(service, steering, clock):
    with service.following():
        asked = clock()
        answer = await service.preferred(IDS, (), 1)
        between = clock()
        await service.allocate(answer)
        await service.allocate(answer)
    first, second = steering.since
    assert asked < first < between < second, "an answer is followed once"


async def test_a_question_of_a_kubelet_that_has_gone_says_nothing(service, steering, clock):
    """Another one may give the same devices without a question."""
    with service.following():
        answer = await service.preferred(IDS, (), 1)
    restarted = clock()
    with service.following():
        await service.allocate(answer)
    assert steering.since[0] > restarted


@pytest.mark.parametrize(("resource", "left"), [(VF, 1), ("example.com/foreign", 2)])
async def test_an_id_of_another_plugin_may_be_another_device(steering, clock, resource, left):
    """Under two resources of ours it is the same one."""
    context = context_of(steering, clock=clock)
    context.node_state.set_devices(VF, ())
    held = ContainerUse("main", (DeviceBlock(resource, IDS[:1], (0,)),))
    context.node_state.observed(Observation((PodUse("default", "p", (held,)),), Allocatable(), 1.0))
    supply, published = HostSupply(GPU, Source(), context, SETTINGS), []
    running = asyncio.ensure_future(supply.run(lambda devices: published.append(len(devices))))
    await until(lambda: published)
    running.cancel()
    assert published == [left]


async def test_of_devices_that_have_gone_only_the_latest_are_answered_for():
    """A vendor's replica ids never end; a device that has just gone may be about to be allocated."""
    source = Source()
    shown = [Device(DeviceId(f"d{number}"), (0,)) for number in range(MAX_GONE + 2)]
    source.scan = lambda: Scan(tuple(shown))
    clock = count(1000, 20)
    supply = HostSupply(GPU, source, context_of(Steering(), clock=lambda: float(next(clock))), SETTINGS)
    await supply.look()
    for _ in range(2):
        del shown[-1]
        for _ in range(6):
            await supply.look()
        assert await supply.allocate([DeviceId(f"d{len(shown)}")])
    gone, shown[:] = list(shown), []
    for _ in range(6):
        await supply.look()
    assert await supply.allocate([gone[0].id, gone[-1].id])
    with pytest.raises(PeerError, match="unknown device ids"):
        await supply.allocate([DeviceId(f"d{MAX_GONE + 1}")])
