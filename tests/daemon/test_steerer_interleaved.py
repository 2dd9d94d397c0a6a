"""What happens while the steerer waits for somebody: what it said or sent before must not stand wrongly."""

from __future__ import annotations

import asyncio

import pytest
from numaplace.daemon.steering.times import Times
from numaplace.model.names import DeviceId
from numaplace.model.podresources import ContainerUse, DeviceBlock, PodUse
from test_steerer_histories import DEVICES, GPU, VF, World

AT_REST = (("list", 0), ("wait", 2), ("list", 0), ("grant", 0), ("list", 0), ("wait", 4), ("list", 0))


async def after(*steps):
    world = World()
    for what, number in steps:
        await world.step(what, number)
    return world


@pytest.fixture
async def world():
    """A node at rest, with one GPU of NUMA node 0 in use and the others of it without topology."""
    made = await after(*AT_REST)
    assert made.published[GPU].withheld == 1
    return made


def published_from_now(world):
    """Whatever is withheld from now on, with what the settings say at that moment."""
    sent = []
    for one in world.published.values():
        publish = one.publish

        def noted(withheld, *, in_use, publish=publish):
            sent.append((world.settings.on, withheld))
            return publish(withheld, in_use=in_use)

        one.publish = noted
    return sent


def delivery_held_up(world):
    """Lists are not taken before the event is set."""
    go = asyncio.Event()

    async def wait(timeout_seconds):
        await go.wait()
        return True

    for one in world.published.values():
        one.delivered = wait
    return go


async def until_held_up(task):
    for _ in range(10):
        await asyncio.sleep(0)
    assert not task.done()


def reasons(world):
    return {one.reason.value for one in world.steerer.status.decision.refusals}


@pytest.fixture
async def unknown():
    """The same node, whose kubelet does not say how it is configured; it is about to be asked again."""
    made = World(known=False)
    for what, number in AT_REST:
        await made.step(what, number)
    assert made.published[GPU].withheld == 0
    made.known = True
    made.now += Times().lookup_retry_seconds
    await made.live(timeout_seconds=1)
    return made


async def test_switched_off_while_a_list_is_asked_for(world):
    """From then on nothing is withheld, not for a moment."""
    live = world.live

    async def listed(*, timeout_seconds):
        world.reload(on=False)
        await live(timeout_seconds=timeout_seconds)

    world.live = listed
    world.steerer.active()
    world.now += 1.1
    await switched_off_in_a_look(world)


async def test_switched_off_while_the_configuration_is_asked_for(unknown):
    find = unknown.find

    async def found():
        unknown.reload(on=False)
        return await find()

    unknown.find = found
    await switched_off_in_a_look(unknown)


async def switched_off_in_a_look(world):
    sent = published_from_now(world)
    await world.steerer.look()
    assert not world.settings.on
    assert not [withheld for on, withheld in sent if withheld and not on]


async def test_switched_on_while_the_configuration_is_asked_for(unknown):
    """Nothing else has to happen for it to be decided on."""
    find = unknown.find
    unknown.reload(on=False)

    async def found():
        unknown.reload(on=True)
        return await find()

    unknown.find = found
    await unknown.steerer.look()
    assert unknown.published[GPU].withheld == 1


async def test_a_failure_is_not_over_because_an_older_list_was_taken(world):
    world.steerer.reset()
    go = delivery_held_up(world)
    look = asyncio.create_task(world.steerer.look())
    await until_held_up(look)
    assert world.steerer.lost_alignment(GPU)
    go.set()
    await look
    assert reasons(world) == {"failed"}
    assert world.log.events("steering works again") == []


async def test_an_allocate_that_is_given_up_leaves_what_is_said(world):
    """Its set goes out in two steps, for the resources change in opposite directions."""
    del world.pods["p0"]
    ids = frozenset((DEVICES[VF][0].id,))
    world.pods["p1"] = PodUse("default", "p1", (ContainerUse("c"),))
    world.node_state.granted(VF, tuple(ids))
    world.now += 0.001
    await world.live(timeout_seconds=1)
    go = delivery_held_up(world)
    call = asyncio.create_task(world.steerer.deliver_next(VF, ids, since_seconds=world.now))
    await until_held_up(call)
    assert world.steerer.status.decision.withheld == {VF: 1}
    call.cancel()
    await asyncio.wait({call})
    assert call.cancelled()
    world.check()
    go.set()
    await world.steerer.look()
    world.check()


def failed(world, name, resource, device):
    """An admission that fails just after our answer, for another plugin's resource: the pod is gone."""
    world.now += 0.01
    world.steerer.active()
    world.pods[name] = PodUse("default", name, (ContainerUse("c"),))
    world.node_state.granted(resource, (device,))
    return frozenset((device,))


@pytest.mark.parametrize("quiet", [True, False])
async def test_devices_of_an_admission_that_failed_may_be_free(quiet):
    """Nobody shows them: a set is not to rest upon their being in use."""
    world = await after(("list", 0), ("wait", 2), ("list", 0))
    used = tuple(one.id for one in DEVICES[GPU][:2])
    world.pods["old"] = PodUse("default", "old", (ContainerUse("c", (DeviceBlock(GPU, used),)),))
    await world.live(timeout_seconds=1)
    ids = failed(world, "p", VF, DEVICES[VF][0].id)
    await world.steerer.deliver_next(VF, ids, since_seconds=world.now)
    del world.pods["p"]
    if quiet:
        for _ in range(3):
            world.now += 1.1
            await world.live(timeout_seconds=1)
            await world.steerer.look()
    else:
        world.now += 0.01
        device = DeviceId(DEVICES[GPU][3].id)
        world.steerer.active()
        world.pods["next"] = PodUse("default", "next", (ContainerUse("c"),))
        world.node_state.granted(GPU, (device,))
        await world.steerer.deliver_next(GPU, {device}, since_seconds=world.now)
    assert {one.withheld for one in world.published.values()} == {0}
    (refusal,) = world.steerer.status.decision.refusals
    assert refusal.what == f"the kubelet may hold 1 {VF} for a container that List does not show"
    for _ in range(3):
        world.now += 16
        await world.live(timeout_seconds=1)
        await world.steerer.look()
    assert world.published[GPU].withheld == 1, "it is as if nothing had been"
    world.check()


async def test_a_checkpoint_that_cannot_be_read_in_time_is_waited_for():
    """After a boot: the pods that hold devices are not listed yet, and must find their topology."""
    world = World()
    held = frozenset(one.id for one in DEVICES[GPU][:1])
    refresh, slow = world.checkpoint.refresh, [True]

    async def refreshed():
        if slow:
            raise TimeoutError
        return await refresh()

    world.checkpoint.refresh = refreshed
    world.checkpoint.written = {GPU: held}
    block = DeviceBlock(VF, (DEVICES[VF][0].id,))
    world.pods["other"] = PodUse("default", "other", (ContainerUse("c", (block,)),))
    for _ in range(4):
        await world.step("list", 0)
        await world.step("wait", 3)
    assert (reasons(world), withheld(world)) == ({"kubelet-just-started"}, {0})
    slow.clear()
    await world.step("list", 0)
    assert (reasons(world), withheld(world)) == ({"kubelet-just-started"}, {0})
    world.pods["held"] = PodUse("default", "held", (ContainerUse("c", (DeviceBlock(GPU, tuple(held)),)),))
    for _ in range(8):
        await world.step("list", 0)
        await world.step("wait", 3)
    assert "kubelet-just-started" not in reasons(world)


async def test_a_list_that_comes_while_the_checkpoint_is_read(world):
    """It shows that a pod with another plugin's device has gone; the checkpoint was written before."""
    vendor, refresh = "vendor.com/x", world.checkpoint.refresh
    world.pods["v"] = PodUse("default", "v", (ContainerUse("c", (DeviceBlock(vendor, ("x0",)),)),))
    await world.step("list", 0)

    async def refreshed():
        changed = await refresh()
        if world.pods.pop("v", None):
            await world.live(timeout_seconds=1)
        return changed

    world.checkpoint.refresh = refreshed
    world.checkpoint.written = {vendor: frozenset(("x0",))}
    await world.steerer.look()
    assert world.node_state.now.unlisted == {}


async def test_resources_that_a_reload_changes_during_an_allocate():
    """The set for the next admission is one for those in service then."""
    start = [("list", 0), ("wait", 2), ("list", 0), ("grant", 0), ("grant", 1)]
    world = await after(*start, ("list", 0), ("wait", 4), ("list", 0))
    assert world.steerer.status.decision.withheld == {GPU: 1, VF: 1}
    live = world.live

    async def listed(*, timeout_seconds):
        del world.published[VF]
        world.reload()
        await live(timeout_seconds=timeout_seconds)

    ids = failed(world, "p", GPU, DEVICES[GPU][2].id)
    world.now += 0.01
    world.live = listed
    await world.steerer.deliver_next(GPU, ids, since_seconds=world.now)
    assert VF not in world.published
    assert VF not in world.steerer.status.decision.withheld


def withheld(world):
    return {one.withheld for one in world.published.values()}
