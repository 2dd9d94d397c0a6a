"""The kubelet may be some lists behind: what it goes by is read back before a set counts."""

from __future__ import annotations

import pytest
from daemon_site import GPU, VF, RecordedLog, until
from numaplace.daemon.node_state import NodeStateHolder
from numaplace.daemon.steering.context import SteeringContext
from numaplace.daemon.steering.publisher import Publisher
from numaplace.daemon.steering.report import SteeringReport
from numaplace.daemon.steering.times import Times
from numaplace.errors import PeerError
from numaplace.metrics.metrics import Metrics
from numaplace.model.device import Device
from numaplace.model.mask import nodes_of
from numaplace.model.names import DeviceId, ResourceName
from numaplace.model.podresources import Allocatable, DeviceBlock
from numaplace.model.topology import NumaTopology
from numaplace.steering.published_topology import is_reported
from steering_site import hidden, placed, reasons, steered, steering_site

TIMES = Times()
ZERO, ONE = 0b1, 0b10


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Kubelet:
    """Takes in what was published ``behind`` questions later."""

    def __init__(self, clock, *, behind=0):
        self.clock = clock
        self.behind = behind
        self.asked = 0
        self.fails = False
        self.log = []

    def resource(self, name):
        return Resource(self, name)

    async def live_allocatable(self, *, timeout_seconds):
        self.asked += 1
        self.clock.now += 0.001
        if self.fails:
            raise PeerError("on purpose", code="UNAVAILABLE")
        return self.asked > self.behind


class Resource:
    def __init__(self, kubelet, name):
        self.kubelet = kubelet
        self.name = name
        self.withheld = 0

    def publish(self, withheld, *, in_use):
        changed, self.withheld = withheld != self.withheld, withheld
        if changed:
            self.kubelet.log.append((self.name, set(nodes_of(withheld))))
        return changed

    async def delivered(self, timeout_seconds):
        return True

    def shown_by(self, allocatable):
        return allocatable


@pytest.fixture
def clock():
    return Clock()


def made(clock, kubelet, *names):
    resources = {name: kubelet.resource(name) for name in names}
    report = SteeringReport(RecordedLog(), Metrics(version="test", clock=clock).steering)
    state = NodeStateHolder(NumaTopology((0, 1)), clock=clock)
    return Publisher(SteeringContext(lambda: resources, state, kubelet, None, report, clock, TIMES))


async def test_one_list_is_not_asked_for(clock):
    kubelet = Kubelet(clock)
    exposure = made(clock, kubelet, GPU)
    assert await exposure.change({GPU: ZERO})
    clock.now += TIMES.recent_seconds * 2
    assert await exposure.change({GPU: ONE})
    assert (kubelet.asked, kubelet.log) == (0, [(GPU, {0}), (GPU, {1})]), "one list for one resource"


async def test_the_second_list_of_a_moment_is_waited_for(clock):
    kubelet = Kubelet(clock, behind=5)
    exposure = made(clock, kubelet, GPU)
    assert await exposure.change({GPU: ZERO})
    assert await exposure.change({GPU: ONE})
    assert kubelet.asked == 6
    assert await exposure.change({GPU: ONE})
    assert kubelet.asked == 6, "nothing was sent"


async def test_a_list_with_other_devices_counts_too(clock):
    kubelet = Kubelet(clock, behind=5)
    exposure = made(clock, kubelet, GPU)
    exposure.devices_changed()
    assert await exposure.change({GPU: ZERO})
    assert kubelet.asked == 6


async def test_several_resources_go_on_when_the_first_step_is_in_force(clock):
    kubelet = Kubelet(clock, behind=3)
    exposure = made(clock, kubelet, GPU, VF)
    await exposure.change({GPU: ZERO})
    clock.now += TIMES.recent_seconds * 2
    assert await exposure.change({GPU: ONE, VF: ZERO})
    assert kubelet.log[1] == (GPU, set())
    assert kubelet.asked >= 4


@pytest.mark.parametrize("fails", [True, False])
async def test_a_kubelet_that_does_not_take_it_in_is_told_of(clock, fails):
    kubelet = Kubelet(clock, behind=10**9)
    kubelet.fails = fails
    exposure = made(clock, kubelet, GPU)
    started = clock.now
    await exposure.change({GPU: ZERO})
    assert not await exposure.change({GPU: ONE})
    assert clock.now - started < TIMES.confirm_seconds * 2


def test_what_the_kubelet_reports_is_compared():
    devices = [
        Device(DeviceId("a"), (0, 1)),
        Device(DeviceId("b"), ()),
        Device(DeviceId("c"), (0,), healthy=False),
    ]

    def reported(**nodes):
        blocks = tuple(
            DeviceBlock(GPU, (DeviceId(one),), (node,) if node is not None else ())
            for one, several in nodes.items()
            for node in several
        )
        return Allocatable(devices=(*blocks, DeviceBlock(ResourceName("x/y"), (DeviceId("b"),), (1,))))

    assert is_reported(GPU, devices, reported(a=[0, 1], b=[None]))
    assert not is_reported(GPU, devices, reported(a=[0, 1], b=[0]))
    assert not is_reported(GPU, devices, reported(a=[1], b=[None]))
    assert not is_reported(GPU, devices, reported())
    assert is_reported(VF, (), reported())


async def test_a_kubelet_that_is_behind_goes_by_no_old_list(root, monkeypatch):
    """Its GetAllocatableResources never shows what was sent: nothing stays withheld."""
    site = steering_site(root)
    async with site.kubelet, steered(site, times=Times()) as served:
        await placed(site, "p0", {GPU: 1})
        await until(lambda: hidden(site, GPU) == {0})
        monkeypatch.setattr("numaplace.daemon.steering.publisher.LISTS_WITHOUT_QUESTION", 0)
        monkeypatch.setattr(type(served.service(GPU)), "shown_by", lambda *_: False)
        assert (await placed(site, "p1", {GPU: 1})).admitted
        assert (await placed(site, "p2", {GPU: 1})).admitted
        assert served.count("numaplace_steering_failures_total", reason="undelivered") >= 1
        assert reasons(served) & {"failed", "admission-under-way"} or hidden(site, GPU) == set()
