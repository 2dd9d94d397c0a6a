"""Devices where the memory and hugepages of their container can be.

Under policy ``none`` the request is known from the API server; e2e tells a real kubelet the same story. Under
the others it is declared, and what steering withholds follows the memory.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from daemon_site import MACHINE, VF, Served, Site, build_site, pod, until
from numaplace.cluster.fake import FakeApiServer
from numaplace.engine.options import PolicyName
from numaplace.kubelet.emulator import Admission, ContainerSpec
from numaplace.model.names import MEMORY, ResourceName, is_memory
from numaplace.model.quantity import parse_quantity
from steering_site import GIB, hidden, home, placed, quiet, steered, steering_site
from test_daemon_cluster import connected, created, known
from yaml_text import read_yaml

PAGES = ResourceName("hugepages-2Mi")
STORY = read_yaml((Path(__file__).parents[1] / "cases/daemon/known_memory.yaml").read_text())


@pytest.fixture
async def bare(root: Path) -> AsyncIterator[Site]:
    machine = replace(
        MACHINE,
        static_cpus=False,
        memory_bytes={0: 22 * GIB, 1: 24 * GIB},
        hugepages_bytes={PAGES: {0: 8 * GIB, 1: 8 * GIB}},
    )
    site = build_site(root, machine=machine)
    async with site.kubelet:
        yield site


async def admitted(site: Site, name: str, limits: Mapping[str, Any]) -> Admission:
    amounts = {ResourceName(key): int(parse_quantity(str(amount))) for key, amount in limits.items()}
    container = ContainerSpec(
        "main",
        devices={key: amount for key, amount in amounts.items() if not is_memory(key)},
        memory_bytes=amounts.pop(MEMORY),
        hugepages_bytes={key: amount for key, amount in amounts.items() if is_memory(key)},
    )
    admission = await site.kubelet.admit(pod(name, containers=(container,)))
    assert admission.admitted, admission.message
    return admission


def lacking_of(served: Served, name: str) -> dict[str, int]:
    """What made the decision for a pod's first devices."""
    lines = [line for line in served.log.events("decision") if line["pod"] == f"default/{name}"]
    return dict(lines[0]["rest"])


async def test_devices_are_where_the_memory_can_be(bare: Site, api: FakeApiServer) -> None:
    async with connected(bare, api, strategy="most-allocated") as served:
        for step in STORY:
            name = step["id"]
            created(api, name, {**step["limits"], "cpu": "100m"})
            await known(served, name)
            admission = await admitted(bare, name, step["limits"])
            assert {node for one in admission.memory["main"] for node in one.nodes} == {step["memory"]}, name
            assert bare.nodes_of(admission) == ({step["devices"]} if "devices" in step else set()), name
            if "devices" in step:
                expected = {key: int(parse_quantity(one)) for key, one in step.get("lacking", {}).items()}
                assert lacking_of(served, name) == expected, name
    assert served.log.troubles == []


async def test_a_request_that_is_not_known_is_not_followed(bare: Site) -> None:
    async with bare.serving(strategy="most-allocated"):
        for step in STORY:
            admission = await admitted(bare, step["id"], step["limits"])
            if "lacking" in step:
                assert bare.nodes_of(admission) == {0}, step["id"]


@pytest.mark.parametrize("policy", [PolicyName.BEST_EFFORT, PolicyName.SINGLE_NUMA_NODE])
async def test_what_steering_withholds_follows_the_memory(root: Path, policy: PolicyName) -> None:
    """NUMA 1 has all of its VFs; it is wanted as soon as there is memory, and not before."""
    site = steering_site(root, policy=policy)
    requests = [{VF: 1, "cpu": 2, "memory": "4Gi"}]
    async with site.kubelet, steered(site, steering={"requests": requests}) as served:
        for node in (0, 1):
            assert home(site, await placed(site, f"fills-{node}", {}, cpus=1, gib=29)) == {node}
        await site.kubelet.remove(("default", "fills-0"))
        for name in ("first", "second"):
            await quiet(served)
            assert hidden(site, VF) == set()
            assert home(site, await placed(site, name, {VF: 1}, gib=4)) == {0}
        await site.kubelet.remove(("default", "fills-1"))
        await until(lambda: hidden(site, VF) == {0})
        assert home(site, await placed(site, "third", {VF: 1}, gib=4)) == {1}
    assert served.log.troubles == []
