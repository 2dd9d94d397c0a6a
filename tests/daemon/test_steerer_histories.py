"""Whatever happens in whatever order: no exception, and nothing withheld without knowing the state."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from daemon_site import RecordedLog
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numaplace.daemon.node_state import NodeStateHolder
from numaplace.daemon.steering.context import SteeringContext
from numaplace.daemon.steering.controller import SteeringController
from numaplace.daemon.steering.kubelet_probe import KnownKubelet
from numaplace.daemon.steering.report import SteeringReport
from numaplace.daemon.steering.settings import Settings
from numaplace.daemon.steering.suspension import BreakerBox
from numaplace.daemon.steering.times import Times
from numaplace.engine.options import PolicyName
from numaplace.errors import PeerError
from numaplace.managers.cpu.policy import NoneCpuPolicy
from numaplace.managers.memory.machine import machine_memory
from numaplace.managers.memory.policies import NoneMemoryPolicy
from numaplace.metrics.metrics import Metrics
from numaplace.model.device import Device
from numaplace.model.names import DeviceId, ResourceName, Strategy
from numaplace.model.observation import Observation
from numaplace.model.podresources import Allocatable, ContainerUse, DeviceBlock, PodUse
from numaplace.model.topology import NumaTopology
from numaplace.prediction.model import KubeletModel
from numaplace.prediction.request import Request
from numaplace.steering.choose import SteeringSettings

GPU, VF = ResourceName("example.com/gpu"), ResourceName("example.com/vf")
NODES = (0, 1)
DEVICES = {
    resource: [Device(DeviceId(f"{resource[-1]}{number}"), (number // 3,)) for number in range(6)]
    for resource in (GPU, VF)
}
ALLOCATABLE = Allocatable()
UNKNOWING = {"state-unknown", "failed", "kubelet-just-started", "held-off-after-a-refusal", "policy-unknown"}


@dataclass
class Published:
    """A resource that is published, or is not taken in time."""

    withheld: int = 0
    taken: bool = True

    def publish(self, withheld, *, in_use):
        changed, self.withheld = withheld != self.withheld, withheld
        return changed

    async def delivered(self, timeout_seconds):
        return self.taken

    def shown_by(self, _allocatable):
        return self.taken


@dataclass
class Checkpoint:
    """What the kubelet writes down, in memory."""

    written: dict[ResourceName, frozenset[DeviceId]] | None = None
    devices: dict[ResourceName, frozenset[DeviceId]] | None = None

    async def refresh(self):
        changed, self.devices = self.devices is not self.written, self.written
        return changed


@dataclass
class World:
    """The kubelet as the steerer sees it, on a clock of its own."""

    now: float = 1000.0
    answers: bool = True
    known: bool = True
    pods: dict[str, PodUse] = field(default_factory=dict)

    def __post_init__(self):
        self.node_state = NodeStateHolder(NumaTopology(NODES), clock=lambda: self.now)
        for resource, devices in DEVICES.items():
            self.node_state.set_devices(resource, devices)
        self.published = {resource: Published() for resource in DEVICES}
        self.checkpoint = Checkpoint()
        choice = SteeringSettings(strategy=Strategy.LEAST_ALLOCATED, always=True)
        declared = (Request.of({GPU: 1}), Request.of({VF: 1}))
        self.settings = Settings(True, choice, declared, backoff_seconds=5.0, deadline_seconds=60.0)
        self.log = RecordedLog()
        self.metrics = Metrics(version="test", clock=lambda: self.now)
        context = SteeringContext(
            lambda: self.published,
            self.node_state,
            self,
            None,
            SteeringReport(self.log, self.metrics.steering),
            clock=lambda: self.now,
            times=Times(),
        )
        self.steerer = SteeringController(
            context, self.settings, kubelet=self, checkpoint=self.checkpoint, breaker=BreakerBox()
        )
        self.steerer.start()

    def reload(self, **changes):
        """Go on with other settings."""
        self.settings = replace(self.settings, **changes)
        self.steerer.reload(self.settings)

    def follow_allocatable(self, *, on):
        """Nobody else's devices are of interest."""

    async def find(self):
        return KnownKubelet(problem="" if self.known else "on purpose", passing=True)

    def model(self, known, _allocatable, steerable):
        memory = NoneMemoryPolicy(machine_memory({node: {} for node in NODES}, {}))
        node = KubeletModel(
            NumaTopology(NODES),
            PolicyName.SINGLE_NUMA_NODE,
            cpu=NoneCpuPolicy(),
            memory=memory,
            steerable=steerable,
        )
        return replace(node, policy=None, problem=known.problem) if known.problem else node

    async def live_allocatable(self, *, timeout_seconds):
        # Asked again and again, the kubelet takes its time.
        self.now += timeout_seconds / 2
        return ALLOCATABLE

    async def live(self, *, timeout_seconds):
        if not self.answers:
            raise PeerError("on purpose", code="UNAVAILABLE")
        self.node_state.observed(Observation(tuple(self.pods.values()), ALLOCATABLE, self.now))

    async def step(self, what, number):
        """Let something happen."""
        resource = (GPU, VF)[number % 2]
        ids = frozenset((DEVICES[resource][number % 6].id,))
        match what:
            case "grant":
                self.pods[f"p{number}"] = PodUse("default", f"p{number}", (ContainerUse("c"),))
                self.steerer.active()
                self.node_state.granted(resource, tuple(ids))
                await self.steerer.deliver_next(resource, ids, since_seconds=self.now)
                block = DeviceBlock(resource, tuple(ids))
                self.pods[f"p{number}"] = PodUse("default", f"p{number}", (ContainerUse("c", (block,)),))
            case "pod":
                self.pods[f"c{number}"] = PodUse("default", f"c{number}", (ContainerUse("c"),))
            case "delete" if self.pods:
                del self.pods[sorted(self.pods)[number % len(self.pods)]]
            case "refused":
                self.steerer.pod_refused(("default", f"p{number}"), (resource,))
            case "lost":
                self.checkpoint.written = {GPU: ids} if number % 3 else None
                self.node_state.kubelet_restarted()
                self.steerer.kubelet_lost()
            case "returned":
                self.steerer.kubelet_returned()
            case "reset":
                self.steerer.reset()
            case "away":
                self.answers = not self.answers
            case "stuck":
                self.published[resource].taken = not self.published[resource].taken
            case "unknown":
                self.known = not self.known
                self.steerer.kubelet_lost()
            case "off":
                self.reload(on=not self.settings.on)
            case "list" if self.answers:
                await self.live(timeout_seconds=1)
            case "wait":
                self.now += (0.05, 0.4, 1.1, 7.0, 40.0)[number % 5]
        await self.steerer.look()

    def check(self):
        """What is published is what is decided, and nothing where the state is not known."""
        status = self.steerer.status
        withheld = {resource: one.withheld for resource, one in self.published.items() if one.withheld}
        assert withheld == dict(status.decision.withheld)
        reasons = {one.reason.value for one in status.decision.refusals}
        if reasons & UNKNOWING or status.held_off_seconds is not None or not self.settings.on:
            assert not withheld
        if self.node_state.now.observation is None or not self.known:
            assert not withheld
        if withheld:
            assert self.now - self.node_state.now.observation.taken_at_seconds <= 30.0


WHATS = ("grant", "pod", "delete", "refused", "lost", "returned", "reset", "away", "stuck", "unknown", "off")
STEPS = st.tuples(st.sampled_from(("grant", "grant", "list", "wait", "wait", *WHATS)), st.integers(0, 29))


@settings(max_examples=examples(80), suppress_health_check=list(HealthCheck))
@given(st.lists(STEPS, max_size=25))
def test_any_history(steps):
    async def play():
        world = World()
        for what, number in [("list", 0), ("wait", 2), ("list", 0), *steps]:
            await world.step(what, number)
            world.check()
        assert not [line for line in world.log.lines if line["exc"]]

    asyncio.run(play())


def test_the_history_of_a_plain_day_steers():
    async def play():
        world = World()
        for what, number in [("list", 0), ("wait", 2), ("list", 0), ("grant", 0)]:
            await world.step(what, number)
            world.check()
        return world.published[GPU].withheld

    assert asyncio.run(play()) == 1


async def test_after_a_list_that_was_not_taken_a_later_set_is_looked_at_as_ever():
    """The set of a grant was taken since: what it was made for may be over soon."""
    world = World()
    start = [("list", 0), ("wait", 2), ("list", 0), ("grant", 0), ("list", 0), ("wait", 4), ("list", 0)]
    failing = [("stuck", 0), ("reset", 0), ("stuck", 0)]
    for what, number in [*start, *failing, ("grant", 2)]:
        await world.step(what, number)
    assert world.published[GPU].withheld == 1
    for what, number in [("list", 0), ("delete", 0), ("delete", 0), ("wait", 2), ("list", 0)]:
        await world.step(what, number)
    assert world.published[GPU].withheld == 0, "all is free"


async def test_a_kubelet_that_starts_while_the_one_before_is_asked_is_no_unknown_one():
    """Its configuration is asked for again; until then that is no reason to tell of."""
    world = World()
    find, lost = world.find, []

    async def find_while_it_restarts():
        if not lost:
            lost.append(world.now)
            world.steerer.kubelet_lost()
        return await find()

    world.find = find_while_it_restarts
    await world.step("list", 0)
    reasons = {one.reason.value for one in world.steerer.status.decision.refusals}
    assert (lost, reasons) == ([world.now], {"kubelet-just-started"})
    assert world.log.events("steering") == []


async def test_a_look_at_the_kubelets_configuration_that_fails_is_repeated_soon():
    """One exception is not a reason to expose everything for a quarter of an hour."""
    world = World()
    find, asked = world.find, []

    async def fail():
        asked.append(world.now)
        raise RuntimeError("on purpose")

    world.find = fail
    for what, number in [("list", 0), ("wait", 2), ("list", 0), ("wait", 3), ("list", 0)]:
        await world.step(what, number)
        (refusal,) = world.steerer.status.decision.refusals
        assert refusal.reason.value == "policy-unknown"
        assert "RuntimeError('on purpose')" in refusal.what
        world.check()
    assert len(asked) == 3
    assert len(world.log.troubles) == 1
    assert 'numaplace_steering_failures_total{reason="error"} 3.0' in world.metrics.render()[0].decode()
    world.find = find
    for what, number in [("wait", 3), ("list", 0), ("grant", 0)]:
        await world.step(what, number)
    assert world.published[GPU].withheld == 1
