"""What ``numaplace inspect`` shows: a snapshot as a JSON document and as tables. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from numaplace.cli.steering import steering_section
from numaplace.cli.table import YELLOW, human_bytes, paint, render_table
from numaplace.doctor.steering_page import SteeringFact
from numaplace.model.mask import nodes_of
from numaplace.model.names import CPU, MEMORY, DeviceId, ResourceName, is_memory
from numaplace.model.podresources import ContainerUse, DeviceBlock, MemoryBlock, PodUse
from numaplace.model.ranges import ranges
from numaplace.state.snapshot import Snapshot

NOTHING = "-"
_DEVICES_WIDTH = 90


def unit_of(resource: ResourceName) -> str:
    """Return ``cpus``, ``bytes`` or ``devices``."""
    if resource == CPU:
        return "cpus"
    return "bytes" if is_memory(resource) else "devices"


def amount(resource: ResourceName, number: int) -> str:
    return human_bytes(number) if unit_of(resource) == "bytes" else str(number)


def sizes(blocks: Iterable[MemoryBlock]) -> str:
    """Return the blocks' sizes, each with its type unless it is plain memory."""
    return (
        ", ".join(
            human_bytes(block.size_bytes) + (f" {block.type}" if block.type != MEMORY else "")
            for block in blocks
            if block.size_bytes
        )
        or NOTHING
    )


def as_document(snapshot: Snapshot, steering: SteeringFact | None = None) -> dict[str, Any]:
    """Return the document of ``-o json``; its keys and order are described in ``docs/cli.md``."""
    topology = snapshot.topology
    return {
        "numaNodes": [{"id": node, "cpus": sorted(topology.cpus.get(node, ()))} for node in topology.nodes],
        "resources": [_resource(snapshot, resource) for resource in snapshot.resources],
        "pods": [_pod(snapshot, pod) for pod in sorted(snapshot.pods, key=lambda pod: pod.key)],
        "steering": None if steering is None else steering.document,
    }


def _resource(snapshot: Snapshot, resource: ResourceName) -> dict[str, Any]:
    return {
        "name": resource,
        "unit": unit_of(resource),
        "largestSingleNodeFit": snapshot.largest_single_node_fit(resource),
        "numaNodes": [
            {
                "id": node,
                "allocatable": usage.allocatable,
                "allocated": usage.allocated,
                "free": usage.free,
                "score": usage.score,
            }
            for node, usage in snapshot.per_node(resource).items()
        ],
    }


def _pod(snapshot: Snapshot, pod: PodUse) -> dict[str, Any]:
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "cpus": sorted(pod.cpus),
        "memory": _memory(pod.memory),
        "containers": [_container(snapshot, container) for container in pod.containers],
    }


def _container(snapshot: Snapshot, container: ContainerUse) -> dict[str, Any]:
    return {
        "name": container.name,
        "numaNodes": list(nodes_of(snapshot.container_mask(container))),
        "devices": [
            {"resource": block.resource, "ids": list(block.ids), "numaNodes": list(block.nodes)}
            for block in _device_blocks(container)
        ],
        "cpus": sorted(container.cpus),
        "memory": _memory(container.memory),
        "claims": sorted(container.claims),
    }


def _memory(blocks: Iterable[MemoryBlock]) -> list[dict[str, Any]]:
    return [
        {"type": block.type, "sizeBytes": block.size_bytes, "numaNodes": list(block.nodes)}
        for block in sorted(blocks, key=lambda block: (block.type, block.nodes, block.size_bytes))
    ]


def as_tables(snapshot: Snapshot, steering: SteeringFact | None = None, *, colour: bool = False) -> str:
    holders = list(_holders(snapshot, colour=colour))
    idle = sum(not _holds(pod) for pod in snapshot.pods)
    parts = [_resource_table(snapshot, colour=colour)]
    if holders:
        headings = ("POD", "CONTAINER", "NUMA NODES", "CPUS", "MEMORY", "DEVICES")
        parts.append(render_table(headings, holders, colour=colour))
    else:
        parts.append("No pod holds devices, exclusive CPUs or NUMA memory.")
    if holders and idle:
        parts.append(f"{idle} more {'pod holds' if idle == 1 else 'pods hold'} none of these.")
    if steering is not None:
        parts.append(steering_section(steering, colour=colour))
    return "\n\n".join(parts)


def _resource_table(snapshot: Snapshot, *, colour: bool) -> str:
    if not snapshot.resources:
        return f"NUMA nodes {ranges(snapshot.topology.nodes)}; the kubelet reports no resources."
    headings = ("RESOURCE", "NUMA NODE", "ALLOCATABLE", "ALLOCATED", "FREE", "SCORE", "LARGEST FIT")
    rows: list[tuple[str, ...]] = []
    for resource in snapshot.resources:
        first: tuple[str, str] = (resource, amount(resource, snapshot.largest_single_node_fit(resource)))
        for node, usage in snapshot.per_node(resource).items():
            amounts = [amount(resource, one) for one in (usage.allocatable, usage.allocated, usage.free)]
            score = str(usage.score) if usage.score else NOTHING
            rows.append((first[0], str(node), *amounts, score, first[1]))
            first = ("", "")
    return render_table(headings, rows, right=headings[1:], colour=colour)


def _holds(pod: PodUse) -> bool:
    return bool(pod.cpus or pod.memory) or any(
        container.devices or container.cpus or container.memory for container in pod.containers
    )


def _holders(snapshot: Snapshot, *, colour: bool) -> Iterator[tuple[str, ...]]:
    for pod in sorted((pod for pod in snapshot.pods if _holds(pod)), key=lambda pod: pod.key):
        rows = [_container_row(snapshot, container, colour=colour) for container in pod.containers]
        if _pod_level(pod):
            rows.insert(
                0, ("(whole pod)", NOTHING, ranges(pod.cpus) or NOTHING, _sorted_sizes(pod.memory), NOTHING)
            )
        for number, row in enumerate(rows):
            yield (f"{pod.namespace}/{pod.name}" if number == 0 else "", *row)


def _pod_level(pod: PodUse) -> bool:
    """Return whether the pod holds more than its containers do (pod-level resources)."""
    cpus = frozenset[int]().union(*(container.cpus for container in pod.containers))
    memory = {block for container in pod.containers for block in container.memory}
    return not pod.cpus <= cpus or not set(pod.memory) <= memory


def _container_row(snapshot: Snapshot, container: ContainerUse, *, colour: bool) -> tuple[str, ...]:
    nodes = nodes_of(snapshot.container_mask(container))
    shown = paint(ranges(nodes), YELLOW, colour=colour and len(nodes) > 1)
    devices = "\n".join(map(_devices, _device_blocks(container)))
    return (
        container.name,
        shown or NOTHING,
        ranges(container.cpus) or NOTHING,
        _sorted_sizes(container.memory),
        devices or NOTHING,
    )


def _device_blocks(container: ContainerUse) -> list[DeviceBlock]:
    """Return one block for each resource and set of NUMA nodes: kubelets list each device by itself."""
    ids: dict[tuple[ResourceName, tuple[int, ...]], list[DeviceId]] = {}
    for block in container.devices:
        ids.setdefault((block.resource, block.nodes), []).extend(block.ids)
    blocks = (DeviceBlock(resource, tuple(sorted(one)), nodes) for (resource, nodes), one in ids.items())
    return sorted(blocks, key=lambda block: (block.resource, block.ids))


def _devices(block: DeviceBlock) -> str:
    text = f"{block.resource}: {' '.join(block.ids)}"
    return textwrap.fill(
        text, _DEVICES_WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def _sorted_sizes(blocks: Iterable[MemoryBlock]) -> str:
    return sizes(sorted(blocks, key=lambda block: (block.type, block.nodes)))
