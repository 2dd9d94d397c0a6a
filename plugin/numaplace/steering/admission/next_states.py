"""The states that a container under admission leads to: its devices are granted, the rest is still to come.

The kubelet gives a container its devices first, resource by resource, then exclusive CPUs, then memory
(``managers.admission``). A withheld set that leaves with the answer to Allocate is used by the next
admission, when all that has happened; so it has to be right for what the state will be then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from numaplace.engine.hint import Hint
from numaplace.errors import AllocationError
from numaplace.managers.admission import Scope
from numaplace.managers.device_manager import PodUid
from numaplace.model.names import ResourceName
from numaplace.prediction.model import KubeletModel
from numaplace.prediction.request import Request, is_compute
from numaplace.prediction.state import DeviceGroup, DeviceGroups, SteeringState

ADMITTED_UID = PodUid("numaplace.under-admission")


def next_states(
    node: KubeletModel,
    state: SteeringState,
    held: Mapping[ResourceName, int],
    *,
    mask: int,
    requests: Sequence[Request],
) -> tuple[SteeringState, ...]:
    """Return the states in which the container under admission may have all that it requests.

    ``held`` are the devices that it has by now, counted as allocated in ``state`` already; ``mask`` are their
    NUMA nodes. Each known request for just as many of them gives a state; the last one returned is
    ``state`` itself, should the admission fail after all. Without such a request nothing is returned: what
    comes is unknown (``SteeringState.unsettled``).
    """
    if node.cpu is None or node.memory is None:
        return ()
    found: list[SteeringState] = []
    for unit in dict.fromkeys(unit for request in requests for unit in request.units(node.scope)):
        if node.scope is Scope.POD and len(unit.containers) > 1:
            if any(resource in unit.total for resource in held):
                return ()
            continue
        if any(unit.total.get(resource, 0) != count for resource, count in held.items()):
            continue
        completed = _completed(node, state, unit, held=held, mask=mask)
        if completed is not None and completed not in found:
            found.append(completed)
    if found and state not in found:
        found.append(state)
    return tuple(found)


def _completed(
    node: KubeletModel, state: SteeringState, unit: Request, *, held: Mapping[ResourceName, int], mask: int
) -> SteeringState | None:
    assert node.cpu is not None  # noqa: S101 - checked by the caller
    assert node.memory is not None  # noqa: S101
    devices = dict(state.devices)
    for resource, size in unit.total.items():
        if is_compute(resource) or resource in held or resource not in devices:
            continue
        groups = _taken(devices[resource], size, mask=mask)
        if groups is None:
            return None
        devices[resource] = groups
    pod = replace(unit.pod(), uid=ADMITTED_UID)
    affinity = Hint(mask, preferred=True)
    try:
        return replace(
            state,
            devices=devices,
            cpu=node.cpu.allocate(state.cpu, pod, pod.containers[0], affinity),
            memory=node.memory.allocate(state.memory, pod, pod.containers[0], affinity),
        )
    except AllocationError:
        return None


def _taken(groups: DeviceGroups, size: int, *, mask: int) -> DeviceGroups | None:
    left = size
    changed: list[DeviceGroup] = []
    for group in groups:
        taken = min(left, group.free) if group.mask & mask else 0
        left -= taken
        changed.append(replace(group, allocated=group.allocated + taken) if taken else group)
    return None if left else tuple(changed)
