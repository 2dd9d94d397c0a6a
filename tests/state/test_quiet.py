"""Which pods may still be under admission."""

from __future__ import annotations

from dataclasses import replace

from numaplace.model.names import DeviceId, ResourceName
from numaplace.model.podresources import ContainerUse, DeviceBlock, PodUse
from numaplace.state.stability import QUIET_SECONDS, StabilityLog

GPU = ResourceName("example.com/gpu")


def use(name, *ids, cpus=()):
    blocks = (DeviceBlock(GPU, tuple(DeviceId(one) for one in ids)),) if ids else ()
    return PodUse("default", name, (ContainerUse("main", blocks, frozenset(cpus)),))


def test_a_pod_moves_until_it_has_looked_the_same_for_a_while():
    log, pods = StabilityLog(), [use("a", "g0")]
    log = log.observed(pods, (), taken_at_seconds=10)
    assert log.moving(10) == {("default", "a")}
    log = log.observed([replace(pods[0])], (), taken_at_seconds=10 + QUIET_SECONDS / 2)
    assert log.moving(10 + QUIET_SECONDS / 2) == {("default", "a")}
    log = log.observed(pods, (), taken_at_seconds=10 + QUIET_SECONDS)
    assert log.moving(10 + QUIET_SECONDS) == frozenset()


def test_more_that_it_gets_makes_it_move_again():
    log = StabilityLog().observed([use("a", "g0")], (), taken_at_seconds=10)
    log = log.observed([use("a", "g0", cpus={1})], (), taken_at_seconds=12)
    assert log.moving(12) == {("default", "a")}


def test_complete_pods_and_pods_that_are_gone_do_not_move():
    log = StabilityLog().observed([use("a"), use("b")], [("default", "a")], taken_at_seconds=10)
    assert log.moving(10) == {("default", "b")}
    assert log.observed([use("a")], [("default", "a")], taken_at_seconds=10.1).moving(10.1) == frozenset()


def test_two_of_one_name_are_compared_in_any_order():
    pods = [use("a", "g0"), use("a", "g1")]
    log = StabilityLog().observed(pods, (), taken_at_seconds=10)
    log = log.observed(pods[::-1], (), taken_at_seconds=11.5)
    assert log.moving(11.5) == frozenset()
