"""What the PodResources API of the emulator shows, and how it misbehaves on request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from grpc import aio
from numaplace.kubelet.api import podresources_pb2 as pb
from numaplace.kubelet.api.podresources_pb2_grpc import PodResourcesListerStub
from numaplace.kubelet.emulator import (
    KUBELET_RATE_LIMIT,
    ContainerSpec,
    Faults,
    KubeletEmulator,
    PodSpec,
)
from numaplace.model.names import ResourceName
from smallplugin import GIB, VF, SmallPlugin, device

SIDE = ContainerSpec("side", devices={VF: 1}, restart_policy="Always")
INIT = ContainerSpec("init", devices={VF: 1})
MAIN = ContainerSpec("main", devices={VF: 2}, cpus=2, memory_bytes=GIB)
PLAIN = ContainerSpec("plain")
POD = PodSpec("ns", "pod", (MAIN, PLAIN), init_containers=(INIT, SIDE))


@pytest.fixture
async def api(kubelet: KubeletEmulator) -> AsyncIterator[Any]:
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with aio.insecure_channel(f"unix:{kubelet.pod_resources_socket}", options=options) as channel:
        yield PodResourcesListerStub(channel)


def entries(container: pb.ContainerResources) -> list[tuple[str, tuple[str, ...], tuple[int, ...] | None]]:
    return sorted(
        (
            one.resource_name,
            tuple(one.device_ids),
            tuple(node.ID for node in one.topology.nodes) if one.HasField("topology") else None,
        )
        for one in container.devices
    )


async def test_list_shows_containers_in_order_without_init_containers(
    kubelet: KubeletEmulator, plugin: SmallPlugin, api: Any
) -> None:
    plugin.prefer = lambda asked: sorted(asked.available_deviceIDs, reverse=True)[: asked.allocation_size]
    admission = await kubelet.admit(POD)
    (shown,) = (await api.List(pb.ListPodResourcesRequest())).pod_resources
    assert (shown.namespace, shown.name) == ("ns", "pod")
    assert [one.name for one in shown.containers] == ["side", "main", "plain"]
    assert not shown.cpu_ids
    main = shown.containers[1]
    nodes = {"a0": 0, "a1": 0, "b0": 1, "b1": 1}
    assert entries(main) == [(VF, (one,), (nodes[one],)) for one in admission.containers["main"][VF]]
    assert set(main.cpu_ids) == {1, 2}
    (memory,) = main.memory
    assert (memory.memory_type, memory.size) == ("memory", GIB)
    assert [node.ID for node in memory.topology.nodes] == [0]
    assert entries(shown.containers[2]) == []
    got = await api.Get(pb.GetPodResourcesRequest(pod_namespace="ns", pod_name="pod"))
    assert [one.name for one in got.pod_resources.containers] == ["side", "main", "plain"]


async def test_the_pod_under_admission_is_listed_as_far_as_it_has_come(
    kubelet: KubeletEmulator, plugin: SmallPlugin, api: Any
) -> None:
    seen = []

    async def look() -> None:
        (shown,) = (await api.List(pb.ListPodResourcesRequest())).pod_resources
        seen.append({one.name: len(one.devices) for one in shown.containers})

    plugin.during_preference = look
    two = PodSpec("ns", "two", (ContainerSpec("x", devices={VF: 1}), ContainerSpec("y", devices={VF: 1})))
    await kubelet.admit(two)
    assert seen == [{"x": 0, "y": 0}, {"x": 1, "y": 0}]


async def test_devices_with_several_no_or_odd_nodes(
    kubelet: KubeletEmulator, plugin: SmallPlugin, api: Any
) -> None:
    plugin.publish(
        [
            device("both", [0, 1]),
            device("none"),
            device("minus", [-1]),
            device("empty", []),
            device("ill", [0], "x"),
        ]
    )
    await kubelet.wait_registered(VF, count=4)
    allocatable = await api.GetAllocatableResources(pb.AllocatableResourcesRequest())
    assert entries(allocatable) == [
        (VF, ("both",), (0,)),
        (VF, ("both",), (1,)),
        (VF, ("minus",), (-1,)),
        (VF, ("none",), None),
    ]
    await kubelet.admit(PodSpec("ns", "all", (ContainerSpec("main", devices={VF: 4}),)))
    (shown,) = (await api.List(pb.ListPodResourcesRequest())).pod_resources
    assert entries(shown.containers[0]) == [
        (VF, ("both",), (0,)),
        (VF, ("both",), (1,)),
        (VF, ("empty",), None),
        (VF, ("minus",), None),
        (VF, ("none",), None),
    ]


async def test_allocatable_is_capacity_without_reserved_cpus(
    kubelet: KubeletEmulator, plugin: SmallPlugin, api: Any
) -> None:
    await kubelet.admit(POD)
    shown = await api.GetAllocatableResources(pb.AllocatableResourcesRequest())
    assert len(shown.devices) == 4
    assert set(shown.cpu_ids) == set(range(1, 8))
    assert {(one.memory_type, one.size, one.topology.nodes[0].ID) for one in shown.memory} == {
        ("memory", 4 * GIB, 0),
        ("memory", 4 * GIB, 1),
        ("hugepages-2Mi", 64 << 20, 0),
        ("hugepages-2Mi", 64 << 20, 1),
    }


async def test_ended_and_rejected_pods_are_not_listed(
    kubelet: KubeletEmulator, plugin: SmallPlugin, api: Any
) -> None:
    await kubelet.admit(POD)
    await kubelet.finish(POD)
    await kubelet.admit(PodSpec("ns", "big", (ContainerSpec("main", devices={VF: 9}),)))
    assert not (await api.List(pb.ListPodResourcesRequest())).pod_resources
    with pytest.raises(aio.AioRpcError, match="ns/pod"):
        await api.Get(pb.GetPodResourcesRequest(pod_namespace="ns", pod_name="pod"))


async def test_hugepages_are_blocks_of_their_own(
    kubelet: KubeletEmulator, plugin: SmallPlugin, api: Any
) -> None:
    huge = ResourceName("hugepages-2Mi")
    main = ContainerSpec("main", memory_bytes=GIB, hugepages_bytes={huge: 96 << 20})
    await kubelet.admit(PodSpec("ns", "pod", (main,)))
    (shown,) = (await api.List(pb.ListPodResourcesRequest())).pod_resources
    blocks = {one.memory_type: [node.ID for node in one.topology.nodes] for one in shown.containers[0].memory}
    assert blocks == {"memory": [0, 1], huge: [0, 1]}, "as wide as what needs most"


async def test_errors_and_delays(kubelet: KubeletEmulator, api: Any) -> None:
    kubelet.faults = Faults(errors={"List": "UNAVAILABLE", "Get": "UNIMPLEMENTED"})
    with pytest.raises(aio.AioRpcError) as failure:
        await api.List(pb.ListPodResourcesRequest())
    assert failure.value.code().name == "UNAVAILABLE"
    with pytest.raises(aio.AioRpcError) as failure:
        await api.Get(pb.GetPodResourcesRequest())
    assert failure.value.code().name == "UNIMPLEMENTED"
    kubelet.faults = Faults(delays_seconds={"List": 60})
    with pytest.raises(aio.AioRpcError) as failure:
        await api.List(pb.ListPodResourcesRequest(), timeout=0.1)
    assert failure.value.code().name == "DEADLINE_EXCEEDED"


async def test_the_kubelets_rate_limit(kubelet: KubeletEmulator, api: Any) -> None:
    kubelet.faults = Faults(rate_limit=KUBELET_RATE_LIMIT)
    calls = [api.List(pb.ListPodResourcesRequest()) for _ in range(100)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    refused = [one for one in results if isinstance(one, aio.AioRpcError)]
    assert {one.code().name for one in refused} == {"RESOURCE_EXHAUSTED"}
    assert len(results) - len(refused) >= KUBELET_RATE_LIMIT.burst
