"""Devices beside the CPUs that a kubelet without a Topology Manager will give the container."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from daemon_site import GPU, VF, Served, Site, until
from numaplace.cluster.fake import FakeApiServer
from numaplace.engine.options import PolicyName
from steering_site import placed, steering, steering_site
from test_daemon_cluster import created, env_of, known

CPUS = 2
GIB = 1 << 30


@pytest.fixture
async def bare(root: Path) -> AsyncIterator[Site]:
    site = steering_site(root, policy=PolicyName.NONE)
    async with site.kubelet:
        yield site


async def admitted(site: Site, served: Served, api: FakeApiServer, name: str, devices: Any) -> set[int]:
    """The NUMA nodes of all that a Guaranteed pod gets whose spec is known before."""
    created(api, name, {**devices, "cpu": CPUS, "memory": 2 * GIB})
    await known(served, name)
    admission = await placed(site, name, devices)
    assert admission.admitted
    return site.nodes_of(admission) | {0 if cpu < 8 else 1 for cpu in admission.cpus["main"]}


@pytest.mark.parametrize("mode", ["auto", "off"])
async def test_devices_are_where_the_cpus_are(bare: Site, api: FakeApiServer, mode: str) -> None:
    """The CPU manager takes node 0's CPUs first; spreading alone would put every other VF on node 1.

    Node 0 has seven: the fourth container has a CPU of either node, whatever its device.
    """
    changes = {"strategy": "least-allocated", "steering": {"mode": mode}}
    async with bare.serving(env=env_of(bare, api), **steering(bare, **changes)) as served:
        await until(lambda: served.node._steerer.kubelet_model.policy is PolicyName.NONE)
        await until(lambda: served.count("numaplace_cluster_watch_connected") == 1)
        homes = [await admitted(bare, served, api, f"p{n}", {VF: 1}) for n in range(6)]
        reasons = [line["why"] for line in served.log.events("decision")]
    assert homes == [{0}, {0}, {0}, {0, 1}, {1}, {1}]
    assert "beside the CPUs that the kubelet will give the container: NUMA 1" in reasons
    assert served.log.troubles == []


async def test_the_strategy_may_come_first(bare: Site, api: FakeApiServer) -> None:
    changes = {"strategy": "least-allocated", "followCPUs": False}
    async with bare.serving(env=env_of(bare, api), **steering(bare, **changes)) as served:
        await until(lambda: served.count("numaplace_cluster_watch_connected") == 1)
        homes = [await admitted(bare, served, api, f"p{n}", {VF: 1}) for n in range(2)]
    assert homes == [{0}, {0, 1}]


async def test_without_the_kubelets_configuration_the_strategy_decides(
    bare: Site, api: FakeApiServer
) -> None:
    changes = {"strategy": "least-allocated", "kubelet": bare.document()["kubelet"]}
    async with bare.serving(env=env_of(bare, api), **steering(bare, **changes)) as served:
        await until(lambda: served.count("numaplace_cluster_watch_connected") == 1)
        homes = [await admitted(bare, served, api, f"p{n}", {GPU: 1}) for n in range(2)]
    assert homes == [{0}, {0, 1}]
