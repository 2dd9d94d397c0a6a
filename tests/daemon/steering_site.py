"""A host whose kubelet has a Topology Manager, and the daemon that steers it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from daemon_site import GPU, MACHINE, VF, Served, Site, build_site, pod, until
from numaplace.engine.options import PolicyName
from numaplace.kubelet.emulator import Admission, ContainerSpec
from numaplace.managers.admission import Scope
from numaplace.model.names import ResourceName

GIB = 1 << 30
RESERVED = frozenset({0, 8})
GPU_REQUEST = {GPU: 1, "cpu": 2, "memory": "2Gi"}


def steering_site(
    root: Path,
    *,
    policy: PolicyName = PolicyName.SINGLE_NUMA_NODE,
    scope: Scope = Scope.CONTAINER,
    managers: bool = True,
) -> Site:
    """The site of the daemon's tests, under a Topology Manager policy."""
    machine = replace(
        MACHINE,
        reserved_cpus=RESERVED if managers else frozenset(),
        static_cpus=managers,
        static_memory=managers,
        topology_policy=policy,
        scope=scope,
    )
    site = build_site(root, machine=machine)
    file = root / "kubelet.yaml"
    file.write_text(yaml.safe_dump(kubelet_document(policy=policy, scope=scope, managers=managers)))
    return site


def kubelet_document(*, policy: PolicyName, scope: Scope, managers: bool) -> dict[str, Any]:
    """The kubelet's own configuration."""
    document: dict[str, Any] = {
        "kind": "KubeletConfiguration",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "topologyManagerPolicy": policy.value,
        "topologyManagerScope": scope.value,
    }
    if managers:
        document |= {
            "cpuManagerPolicy": "static",
            "memoryManagerPolicy": "Static",
            "reservedSystemCPUs": "0,8",
        }
    return document


def steering(site: Site, **changes: Any) -> dict[str, Any]:
    """The daemon's configuration: what the kubelet's file says, requests declared."""
    document = site.document()
    kubelet = {**document["kubelet"], "configFile": str(site.root / "kubelet.yaml")}
    return {
        "kubelet": kubelet,
        "weights": "cpu=0,memory=0",
        "pollInterval": "500ms",
        "steering": {"requests": [GPU_REQUEST]},
        **changes,
    }


@asynccontextmanager
async def steered(site: Site, **changes: Any) -> AsyncIterator[Served]:
    """Run the daemon, and wait until it has decided for the first time."""
    async with site.serving(**steering(site, **changes)) as served:
        await until(lambda: decided(served), "a first decision")
        yield served


async def withhold(served: Served, withheld: Mapping[ResourceName, int]) -> None:
    """Put a set in force, whatever the daemon would do."""
    assert await served.node._steerer.publisher.change(withheld)


def reasons(served: Served) -> set[str]:
    """Why nothing, or nothing more, is withheld."""
    status = served.node.steering_status()
    return set() if status is None else {one.reason.value for one in status.decision.refusals}


def decided(served: Served) -> bool:
    """Whether what is in force was decided with a known state, or steering is off."""
    return not reasons(served) & {"state-unknown", "kubelet-just-started", "failed", "admission-under-way"}


async def quiet(served: Served) -> None:
    """Wait until the daemon has looked at rest after the last admission."""
    await until(lambda: served.node.steering_status().quiet and decided(served), "rest")


async def quiet_lists(served: Served) -> None:
    """Wait until a List shows that nothing is under admission."""
    await until(lambda: served.node.steering_status().quiet, "Lists without a change")


def published(site: Site, resource: ResourceName) -> Mapping[str, tuple[int, ...]]:
    """What the kubelet has been told of the devices' NUMA nodes."""
    known = site.kubelet._node.devices.published(resource) or {}
    return {one.id: one.nodes for one in known.values()}


def hidden(site: Site, resource: ResourceName) -> set[int]:
    """The real NUMA nodes of the devices that the kubelet sees without topology."""
    return {site.truth[one] for one, nodes in published(site, resource).items() if not nodes}


async def placed(
    site: Site, name: str, devices: Mapping[ResourceName, int], *, cpus: int = 2, gib: int = 2
) -> Admission:
    """Admit a Guaranteed pod with one container."""
    container = ContainerSpec("main", devices, cpus=cpus, memory_bytes=gib * GIB)
    return await site.kubelet.admit(pod(name, containers=(container,)))


def home(site: Site, admission: Admission) -> set[int]:
    """The NUMA nodes of a container's devices, CPUs and memory."""
    nodes = site.nodes_of(admission)
    nodes |= {0 if cpu < 8 else 1 for cpu in admission.cpus["main"]}
    return nodes | {node for block in admission.memory["main"] for node in block.nodes}


__all__ = ["GPU", "VF"]
