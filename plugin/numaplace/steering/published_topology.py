"""What ListAndWatch publishes under a withheld set, and the way from one set to another."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from numaplace.model.device import Device
from numaplace.model.mask import mask_of
from numaplace.model.names import DeviceId, ResourceName
from numaplace.model.podresources import Allocatable
from numaplace.prediction.predict import Withheld


def published_nodes(device: Device, *, in_use: bool, withheld: int) -> tuple[int, ...]:
    """Return the NUMA nodes that a device is published with.

    Only a healthy device that no pod holds is published without, if any of its nodes is withheld: one of two
    nodes would keep the node in play. Allocated devices show theirs to readers of PodResources, and
    unhealthy ones count towards the width that the kubelet prefers.
    """
    if in_use or not device.healthy or not withheld & device.mask:
        return device.nodes
    return ()


def is_mixed(
    available: Collection[DeviceId], must_include: Collection[DeviceId], *, hidden: Collection[DeviceId]
) -> bool:
    """Return whether hidden devices are offered beside shown ones, other than those that must be included."""
    musts = frozenset(must_include)
    return any(id_ in hidden for id_ in available) and any(
        id_ not in hidden and id_ not in musts for id_ in available
    )


def looked_at(
    available: Collection[DeviceId],
    must_include: Collection[DeviceId],
    size: int,
    *,
    hidden: Mapping[DeviceId, tuple[int, ...]],
    nodes: int,
) -> Collection[DeviceId]:
    """Return the offered devices that the Topology Manager chose, if ``nodes`` were withheld after it had.

    It chooses before the kubelet picks devices; in between a list may arrive that hides those of the NUMA
    node that it chose. Then the kubelet finds too few there and offers all that are free, hidden ones too,
    which it never does otherwise under a policy that steering acts on (device manager, devicesToAllocate).
    CPUs and memory come from the chosen node all the same. ``hidden`` are the devices that are published
    without topology now, and their NUMA nodes.
    """
    musts = frozenset(must_include)
    chosen = [id_ for id_ in available if id_ in musts or nodes & mask_of(hidden.get(id_, ()))]
    return chosen if len(chosen) >= size and len(chosen) > len(musts) else available


def published(
    devices: Mapping[DeviceId, Device], *, in_use: Collection[DeviceId], withheld: int
) -> dict[DeviceId, tuple[int, ...]]:
    return {
        id_: published_nodes(device, in_use=id_ in in_use, withheld=withheld)
        for id_, device in devices.items()
    }


def is_reported(resource: ResourceName, devices: Iterable[Device], allocatable: Allocatable) -> bool:
    """Return whether the kubelet has the devices with these NUMA nodes. It reports no unhealthy ones."""
    reported: dict[DeviceId, set[int]] = {}
    for block in allocatable.devices:
        if block.resource == resource:
            for one in block.ids:
                reported.setdefault(one, set()).update(block.nodes)
    healthy = {device.id: set(device.nodes) for device in devices if device.healthy}
    if healthy and not reported:
        return False
    return all(reported.get(one, nodes) == nodes for one, nodes in healthy.items())


def first_step(now: Withheld, following: Withheld) -> Withheld:
    """Return the set in which all that becomes exposed is exposed, and nothing new is withheld.

    Lists of several resources do not arrive at the same moment. When this one has been delivered before the
    following one is sent, no moment shows two resources of a pod on disjoint nodes only.
    """
    common = {resource: mask & following.get(resource, 0) for resource, mask in sorted(now.items())}
    return {resource: mask for resource, mask in common.items() if mask}
