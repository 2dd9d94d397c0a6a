"""Where the devices of one resource could come from: the device manager's topology hints.

Reimplements kubelet v1.37.2 ``pkg/kubelet/cm/devicemanager/topology_hints.go``:
``generateDeviceTopologyHints``, ``GetTopologyHints``, ``GetPodTopologyHints``, ``deviceNUMANodes``; scores as
in KEP-6007 ("Topology Hint Score Plumbing").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cache

from numaplace.engine.hint import Hint
from numaplace.engine.score import utilization_score
from numaplace.managers.device_manager import DeviceManager
from numaplace.managers.pod import Container, Pod
from numaplace.model.device import Device
from numaplace.model.mask import MAX_NODE, masks_by_width, nodes_of, union_of
from numaplace.model.names import DeviceId, ResourceName


@dataclass(frozen=True, slots=True)
class HintRequest:
    """A number of devices of one resource, and which may be allocated.

    ``available`` are free and healthy, ``reusable`` those of the pod's earlier init containers, ``in_use``
    all that some container holds. A device in ``reusable`` that has no topology does not count.
    """

    size: int
    available: AbstractSet[DeviceId]
    reusable: AbstractSet[DeviceId] = field(default_factory=frozenset)
    in_use: AbstractSet[DeviceId] = field(default_factory=frozenset)


def container_device_hints(
    manager: DeviceManager,
    pod: Pod,
    container: Container,
    *,
    numa_nodes: tuple[int, ...],
    over_all_nodes: bool = False,
) -> dict[ResourceName, list[Hint] | None]:
    """Return a container's hints per device resource; ``None`` where no device has topology."""
    return {
        resource: _hints_of(
            manager,
            resource,
            size=size,
            held=frozenset(manager.held(pod.uid, container.name).get(resource, ())),
            reusable=manager.reusable(pod.uid, resource),
            numa_nodes=numa_nodes,
            over_all_nodes=over_all_nodes,
        )
        for resource, size in container.limits.items()
        if manager.knows(resource)
    }


def pod_device_hints(
    manager: DeviceManager, pod: Pod, *, numa_nodes: tuple[int, ...], over_all_nodes: bool = False
) -> dict[ResourceName, list[Hint] | None]:
    """Return a whole pod's hints per device resource; ``None`` where no device has topology."""
    return {
        resource: _hints_of(
            manager,
            resource,
            size=size,
            held=frozenset(
                one
                for container in manager.containers_of(pod.uid)
                for one in manager.held(pod.uid, container).get(resource, ())
            ),
            reusable=frozenset(),
            numa_nodes=numa_nodes,
            over_all_nodes=over_all_nodes,
        )
        for resource, size in pod.effective_limits.items()
        if manager.knows(resource)
    }


def _hints_of(
    manager: DeviceManager,
    resource: ResourceName,
    *,
    size: int,
    held: frozenset[DeviceId],
    reusable: frozenset[DeviceId],
    numa_nodes: tuple[int, ...],
    over_all_nodes: bool,
) -> list[Hint] | None:
    devices = manager.published(resource) or {}
    if not any(device.nodes for device in devices.values()):
        return None
    if held and len(held) != size:
        return []
    available = held or manager.free(resource)
    usable = frozenset() if held else reusable
    if len(available | usable) < size:
        return []
    request = HintRequest(size, available, usable, manager.in_use(resource))
    return device_hints(request, devices, numa_nodes=numa_nodes, over_all_nodes=over_all_nodes)


def device_hints(
    request: HintRequest,
    devices: Mapping[DeviceId, Device],
    *,
    numa_nodes: tuple[int, ...],
    over_all_nodes: bool = False,
) -> list[Hint]:
    """Return a hint for each set of device-bearing NUMA nodes that can hold the request, narrow sets first.

    ``devices`` are all published ones, healthy or not: they decide which width is preferred. Their number per
    distinct mask is what matters, so the work grows with NUMA nodes, not with devices. ``over_all_nodes`` is
    what kubelets before 1.36 do: nodes without devices are in the sets, too. The same ones are preferred.
    """
    known = sum(1 << node for node in numa_nodes)
    mask_of = {one: _mask(device) for one, device in devices.items()}
    bearing = nodes_of(union_of(mask_of.values()) & known)
    if over_all_nodes or not bearing:
        bearing = numa_nodes
    masks = _masks_over(bearing)
    everything = _counts(Counter(mask_of.values()), masks)
    available = _counts(Counter(mask_of.get(one, 0) for one in request.available), masks)
    healthy = _counts(Counter(mask_of[one] for one, device in devices.items() if device.healthy), masks)
    allocated = _counts(
        Counter(mask_of[one] for one in request.in_use if one in devices and devices[one].healthy), masks
    )
    bound = [mask_of[one] for one in request.reusable if one in devices and devices[one].nodes]
    still_needed = request.size - len(bound)
    narrowest = next(
        (mask.bit_count() for mask in masks if everything[mask] >= request.size), masks[-1].bit_count()
    )
    return [
        Hint(mask, mask.bit_count() == narrowest, utilization_score(healthy[mask], allocated[mask]))
        for mask in masks
        if available[mask] >= still_needed and all(mask & one for one in bound)
    ]


@cache
def _masks_over(nodes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(masks_by_width(nodes))


def _counts(by_mask: Mapping[int, int], masks: Sequence[int]) -> dict[int, int]:
    """Return for each mask how many devices touch it. A mask follows the one without its lowest node."""
    counts = {0: 0}
    for mask in masks:
        low = mask & -mask
        counts[mask] = counts[mask ^ low] + by_mask.get(low, 0)
    for wide, number in by_mask.items():
        if wide & (wide - 1):
            for mask in masks:
                if mask & wide:
                    counts[mask] += number
    return counts


def _mask(device: Device) -> int:
    """Return the device's mask without ids above 63: the kubelet drops ids that it does not know."""
    return sum(1 << node for node in set(device.nodes) if 0 <= node <= MAX_NODE)
