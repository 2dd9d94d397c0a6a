"""Steering in ``numaplace inspect``: devices without topology on their own NUMA nodes, and a section of text.

The kubelet shows no topology for free devices whose topology is withheld. The daemon's page says where they
are. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from numaplace.cli.table import BOLD, YELLOW, paint
from numaplace.doctor.steering_page import SteeringFact
from numaplace.doctor.text import counted
from numaplace.model.names import DeviceId, ResourceName
from numaplace.model.podresources import Allocatable, DeviceBlock, PodUse
from numaplace.model.ranges import ranges

Nodes = Mapping[DeviceId, tuple[int, ...]]
OFF = "off"


def own_nodes(steering: SteeringFact | None) -> Mapping[ResourceName, Nodes]:
    """Return the NUMA nodes of the devices whose topology is withheld, by resource."""
    return {} if steering is None else {name: one.devices for name, one in steering.withheld.items()}


def placed_allocatable(allocatable: Allocatable, nodes: Mapping[ResourceName, Nodes]) -> Allocatable:
    """Return the allocatable devices; those without topology get their known nodes."""
    return replace(allocatable, devices=_placed(allocatable.devices, nodes))


def placed_pods(pods: Sequence[PodUse], nodes: Mapping[ResourceName, Nodes]) -> tuple[PodUse, ...]:
    """Return the pods, their devices likewise: a withheld device may have been allocated since."""
    if not nodes:
        return tuple(pods)
    return tuple(
        replace(
            pod,
            containers=tuple(replace(one, devices=_placed(one.devices, nodes)) for one in pod.containers),
        )
        for pod in pods
    )


def _placed(blocks: Iterable[DeviceBlock], nodes: Mapping[ResourceName, Nodes]) -> tuple[DeviceBlock, ...]:
    return tuple(part for block in blocks for part in _parts(block, nodes.get(block.resource, {})))


def _parts(block: DeviceBlock, nodes: Nodes) -> Iterator[DeviceBlock]:
    """Split the block by its devices' nodes; topology that the kubelet shows takes precedence."""
    if block.nodes or not nodes:
        yield block
        return
    groups: dict[tuple[int, ...], list[DeviceId]] = {}
    for id_ in block.ids:
        groups.setdefault(nodes.get(id_, ()), []).append(id_)
    for of_group, ids in groups.items():
        yield DeviceBlock(block.resource, tuple(ids), of_group)


def steering_section(steering: SteeringFact, *, colour: bool = False) -> str:
    return "\n".join(
        (f"{paint('STEERING', BOLD, colour=colour)}  {_what(steering)}", *_lines(steering, colour=colour))
    )


def _what(steering: SteeringFact) -> str:
    if steering.mode == OFF:
        return "off (steering.mode)"
    if not steering.policy:
        return f"mode {steering.mode}; the kubelet's configuration is not known"
    return (
        f"mode {steering.mode}; Topology Manager policy {steering.policy}, scope {steering.scope} "
        f"({steering.source})"
    )


def _lines(steering: SteeringFact, *, colour: bool) -> Iterator[str]:
    if steering.open_seconds is not None:
        text = f"circuit breaker open for {steering.open_seconds:.0f} s more: a pod was refused"
        yield f"  {paint(text, YELLOW, colour=colour)}"
    for resource, one in steering.withheld.items():
        devices = counted(len(one.devices), "free device")
        yield f"  {resource}: topology of {devices} withheld on NUMA {ranges(one.nodes)}"
    if not steering.withheld and steering.mode != OFF:
        yield "  nothing withheld"
    for _, text in steering.refusals:
        yield f"  {text}"
    for text in steering.requests:
        yield f"  {steering.requests_source} {text}"
