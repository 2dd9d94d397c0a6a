"""How an Allocate is matched with the question before it."""

from __future__ import annotations

import time
from itertools import count

import pytest
from daemon_site import GPU, NODES, RecordedLog
from numaplace.daemon.node_state import NodeStateHolder
from numaplace.daemon.resources.service import ResourceService
from numaplace.devices.scan import Scan
from numaplace.kubelet.plugin.preference import fallback
from numaplace.metrics.metrics import Metrics
from numaplace.model.device import Device
from numaplace.model.names import DeviceId
from numaplace.model.topology import NumaTopology

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
    def __init__(self, keeper):
        self.keeper = keeper

    async def decide(self, ask):
        ids = fallback(ask.available, ask.must_include, ask.size)
        self.keeper.answered(ask.resource, ids, asking=None, asked_at_seconds=ask.asked_at_seconds)
        return ids


@pytest.fixture
def steering():
    return Steering()


@pytest.fixture
async def service(steering):
    ticks = count(1000)

    def clock():
        return float(next(ticks))

    keeper = NodeStateHolder(NumaTopology(NODES), clock=clock)
    made = ResourceService(
        GPU,
        Source(),
        keeper=keeper,
        decider=Decider(keeper),
        steering=steering,
        settings=lambda: None,
        metrics=Metrics(version="test", clock=time.monotonic),
        log=RecordedLog(),
        clock=clock,
    )
    await made.rescan()
    return made


async def test_a_list_since_the_question_shows_who_asks(service, steering):
    with service.following():
        asked = service._clock()
        answer = await service.preferred(IDS, (), 1)
        between = service._clock()
        await service.allocate(answer)
        await service.allocate(answer)
    first, second = steering.since
    assert asked < first < between < second, "an answer is followed once"


async def test_a_question_of_a_kubelet_that_has_gone_says_nothing(service, steering):
    """Another one may give the same devices without a question."""
    with service.following():
        answer = await service.preferred(IDS, (), 1)
    restarted = service._clock()
    with service.following():
        await service.allocate(answer)
    assert steering.since[0] > restarted
