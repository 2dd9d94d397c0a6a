"""Steering while things happen: CPU-only pods compete, devices turn unhealthy, the daemon dies.

A kubelet with ``single-numa-node`` on four NUMA nodes of 16 CPUs; all weight on the VFs. So the wanted node
is the one with the most free VFs, whatever its CPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from harness.apiserver import Cluster, fake_cluster
from harness.backend import Tools
from harness.daemon import Daemon
from harness.equipped import EquippedNode, equipped_node
from harness.hardware import declare, set_unhealthy
from harness.kubelet import KubeletOptions
from harness.landing import Landing, land, refused_only, settle
from harness.logs import LogKeeper
from harness.pods import Container, Pod, unique
from harness.steering import count, samples, wait_decided, withheld
from harness.waiters import until

VF = "example.com/vf"
VFS_EACH = 16
DEVICES = {f"vf-{node}-{number}": node for node in range(4) for number in range(VFS_EACH)}
# NUMA node 0 has 15 CPUs for pods: one is reserved.
SMALL: dict[str, Any] = {VF: 1, "cpu": 1, "memory": "1Gi"}
FOUR: dict[str, Any] = {VF: 1, "cpu": 4, "memory": "1Gi"}


@pytest.fixture(scope="module")
def site(tools: Tools, scratch: Path, logs: LogKeeper) -> Iterator[EquippedNode]:
    options = KubeletOptions(
        topology_manager_policy="single-numa-node", static_cpu_manager=True, static_memory_manager=True
    )
    with equipped_node(
        tools,
        scratch,
        numa_nodes=4,
        options=options,
        logs=logs,
        cpus_each=16,
        equip=partial(declare, devices={VF: DEVICES}),
    ) as site:
        yield site


Steered = Callable[..., Any]


@pytest.fixture
def steered(site: EquippedNode) -> Steered:
    """Run a daemon that steers for these requests, least VFs first."""

    def run(*requests: dict[str, Any], cluster: Cluster | None = None, **more: Any) -> Any:
        return site.daemon(
            "least-allocated",
            weights="cpu=0,memory=0",
            steering={"requests": list(requests), **more},
            cluster=cluster,
        )

    return run


def pods_of(prefix: str, *all_limits: dict[str, Any]) -> list[Pod]:
    return [Pod.of(unique(prefix), limits) for limits in all_limits]


def nodes_of(found: Sequence[Landing]) -> list[tuple[int, ...]]:
    assert [one.refusal for one in found if not one.admitted] == []
    return [one.nodes for one in found]


def cpu_only(cpus: int) -> dict[str, Any]:
    return {"cpu": cpus, "memory": "1Gi"}


def fill(site: EquippedNode) -> None:
    """Put a VF on each NUMA node but the last, if the daemon steers; leave four or five CPUs free there."""
    for limits in (FOUR, FOUR, FOUR, cpu_only(7), cpu_only(7), cpu_only(7)):
        assert nodes_of(land(site, pods_of("fill", limits)))


def test_cpu_only_pods_are_seen(site: EquippedNode, steered: Steered) -> None:
    """The wanted NUMA node is taken by a pod that no plugin knows."""
    with steered(FOUR) as daemon:
        wait_decided(daemon)
        fill(site)
        site.wait_withheld(daemon, {VF: frozenset((0, 1, 2))})
        assert nodes_of(land(site, pods_of("compute", cpu_only(13)))) == [(3,)]
        site.wait_withheld(daemon, {})
        assert nodes_of(land(site, pods_of("next", FOUR))) == [(0,)]


def test_headroom_keeps_room_for_cpu_only_pods(site: EquippedNode, steered: Steered) -> None:
    """The kubelet admits a CPU-only pod and the next one before anybody can know."""
    with steered(FOUR, headroom={"cpu": 13}) as daemon:
        wait_decided(daemon)
        fill(site)
        site.wait_withheld(daemon, {})
        assert all(one.admitted for one in land(site, pods_of("burst", cpu_only(13), FOUR)))


def test_what_init_containers_keep(site: EquippedNode, steered: Steered, tmp_path: Path) -> None:
    """PodResources hides CPUs that stay with an init container that has ended; the pod's spec tells."""
    greedy = Pod(
        unique("greedy"),
        (Container(limits=cpu_only(1)),),
        init_containers=(Container("init", cpu_only(13), ends=True),),
    )
    with fake_cluster(tmp_path) as cluster, steered(FOUR, cluster=cluster) as daemon:
        wait_decided(daemon)
        fill(site)
        site.wait_withheld(daemon, {VF: frozenset((0, 1, 2))})
        assert nodes_of(land(site, [greedy])) == [(3,)]
        cluster.mirror(site.node.kubelet)
        site.wait_withheld(daemon, {})
        # Three CPUs are left on NUMA node 3, not 15.
        assert nodes_of(land(site, pods_of("next", FOUR))) == [(0,)]


def test_many_cpu_only_pods_compete(site: EquippedNode, steered: Steered) -> None:
    mixed = [limits for _ in range(10) for limits in (SMALL, cpu_only(1), SMALL, cpu_only(2))]
    with site.alone():
        stock = land(site, pods_of("stock", *mixed))
    with steered(SMALL, headroom={"cpu": 4}) as daemon:
        wait_decided(daemon)
        found = land(site, pods_of("both", *mixed))
        assert count(daemon, "steering_breaker_trips_total") == 0
    assert refused_only(found, stock) == []
    # CPU-only pods fill the lowest NUMA nodes, which therefore get fewer of the VFs' pods.
    vfs = [one.devices for one in found if one.devices]
    counts = [len([one for one in vfs if node in one]) for node in range(4)]
    assert max(counts) <= 7, counts
    assert counts[3] >= 5, counts


def test_a_device_turns_unhealthy(site: EquippedNode, steered: Steered) -> None:
    sick = frozenset(id_ for id_, node in DEVICES.items() if node == 3)
    try:
        with steered(SMALL) as daemon:
            wait_decided(daemon)
            assert nodes_of(land(site, pods_of("before", SMALL, SMALL, SMALL))) == [(0,), (1,), (2,)]
            site.wait_withheld(daemon, {VF: frozenset((0, 1, 2))})
            set_unhealthy(site.hardware, VF, sick)
            site.node.wait_for_devices(VF, len(DEVICES) - len(sick))
            # Of the others, which are equally full, the kubelet takes the lowest.
            until(lambda: 0 not in withheld(daemon).get(VF, ()), "NUMA node 0 to be exposed")
            assert nodes_of(land(site, pods_of("sick", SMALL, SMALL))) == [(0,), (1,)]
            set_unhealthy(site.hardware, VF, frozenset())
            site.node.wait_for_devices(VF, len(DEVICES))
            site.wait_withheld(daemon, {VF: frozenset((0, 1, 2))})
            assert nodes_of(land(site, pods_of("well", SMALL))) == [(3,)]
    finally:
        set_unhealthy(site.hardware, VF, frozenset())


def test_the_daemon_is_killed_in_the_middle(site: EquippedNode, steered: Steered) -> None:
    pods = pods_of("mid", *[SMALL] * 40)
    with steered(SMALL) as daemon:
        wait_decided(daemon)
        for pod in pods:
            site.node.create(pod)
        until(lambda: len(site.node.all_running()) >= 8, "some pods to run")
        daemon.kill()
        daemon.start()
        site.wait_registered(daemon)
        settle(site, pods)
        refused = site.node.all_rejected()
        # The kubelet has no healthy device in the gap: it refuses pods then, whoever the plugin is.
        assert {one.reason for one in refused.values()} <= {
            "TopologyAffinityError",
            "UnexpectedAdmissionError",
        }
        wait_decided(daemon)
        again = land(site, pods_of("again", *[SMALL] * len(refused)))
        assert all(one.admitted and one.aligned for one in again)
        counts = site.placement().per_node(VF).values()
        assert max(counts) - min(counts) <= 3, counts


def test_the_kubelet_is_killed(site: EquippedNode, steered: Steered) -> None:
    """It looks at the pods that it has anew: they stay, and the strategy goes on."""
    pods = pods_of("before", *[SMALL] * 6)
    with steered(SMALL) as daemon:
        wait_decided(daemon)
        assert nodes_of(land(site, pods)) == [(0,), (1,), (2,), (3,), (0,), (1,)]
        site.wait_withheld(daemon, {VF: frozenset((0, 1))})
        held = site.node.held()
        site.node.kubelet.kill()
        site.node.kubelet.start()
        site.wait_registered(daemon)
        until(lambda: site.node.held() == held, "the pods to be there with what they held")
        assert site.node.all_rejected() == {}
        site.wait_withheld(daemon, {VF: frozenset((0, 1))})
        assert nodes_of(land(site, pods_of("after", SMALL, SMALL))) == [(2,), (3,)]
        assert {pod.name for pod in pods} <= site.node.all_running().keys()


def test_circuit_breaker(site: EquippedNode, steered: Steered, tmp_path: Path) -> None:
    """Without headroom a CPU-only pod may take the wanted node unseen; what that does happens once."""
    with fake_cluster(tmp_path) as cluster, steered(FOUR, cluster=cluster, backoff="3s") as daemon:
        wait_decided(daemon)
        fill(site)
        site.wait_withheld(daemon, {VF: frozenset((0, 1, 2))})
        compute, refused = land(site, pods_of("burst", cpu_only(13), FOUR))
        assert (compute.nodes, refused.refusal) == ((3,), "TopologyAffinityError")
        cluster.mirror(site.node.kubelet)
        until(lambda: is_open(daemon), "the circuit breaker to open", detail=daemon.tail)
        assert withheld(daemon) == {}
        assert count(daemon, "steering_breaker_trips_total") == 1
        # Its owner makes a new one: with everything exposed the kubelet admits it.
        assert nodes_of(land(site, pods_of("again", FOUR))) == [(0,)]
        until(lambda: not is_open(daemon), "the circuit breaker to close", detail=daemon.tail)
        assert count(daemon, "steering_breaker_trips_total") == 1


def is_open(daemon: Daemon) -> bool:
    return [value for _, value in samples(daemon, "steering_breaker_open")] == [1.0]
