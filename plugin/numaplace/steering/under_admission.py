"""The container that is under admission when Allocate is answered: what it may hold, and may still ask for.

The API does not name it. It holds the granted devices; and perhaps those that an earlier call gave to the
last container of the pod under admission (``state.admission``). Where that is not certain there are several
readings, and a withheld set has to be right for all of them.

What it still gets is taken at once after the answer: devices by the Topology Manager's affinity, which is
fixed by now. So the nodes of that affinity stay exposed for the resources that it may still ask for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from numaplace.managers.admission import Scope
from numaplace.model.mask import mask_of, nodes_of
from numaplace.model.names import DeviceId, ResourceName
from numaplace.model.podresources import ContainerUse, PodUse
from numaplace.state.admission import has_resource, is_done, last_touched
from numaplace.state.snapshot import Snapshot
from numaplace.steering.inflight import completions
from numaplace.steering.node import SteeringNode
from numaplace.steering.shape import Shape, is_compute
from numaplace.steering.state import SteeringState


@dataclass(frozen=True, slots=True)
class Reading:
    """Devices that the container under admission may hold by now, and the mask of their NUMA nodes."""

    held: Mapping[ResourceName, int]
    mask: int

    def may_be(self, unit: Shape) -> bool:
        """Return whether a unit of this shape can hold just that while it is admitted."""
        total = unit.total
        return all(total.get(resource, 0) == count for resource, count in self.held.items())


def readings(
    snapshot: Snapshot, able: Iterable[PodUse], resource: ResourceName, ids: Iterable[DeviceId]
) -> tuple[Reading, ...]:
    """Return the readings after a grant that the snapshot counts, the likeliest first; always one or more.

    ``able`` are the pods that can have asked for the resource (``AdmissionLog.asking``), as listed before.
    """
    granted = frozenset(ids)
    known = snapshot.devices(resource)
    mask = 0
    for one in granted:
        mask |= known[one].mask if one in known else 0
    found = [Reading({resource: len(granted)}, mask)]
    for pod in able:
        container = _begun(pod, resource)
        if container is not None:
            held = _counted(container)
            found.insert(
                0, Reading({**held, resource: len(granted)}, mask | snapshot.container_mask(container))
            )
    return tuple(one for number, one in enumerate(found) if one not in found[:number])


def _begun(pod: PodUse, resource: ResourceName) -> ContainerUse | None:
    """Return the pod's last container that holds something, if it can be the one that just got more."""
    last = last_touched(pod)
    if last < 0 or is_done(pod.containers[last]) or has_resource(pod.containers[last], resource):
        return None
    return pod.containers[last]


def _counted(container: ContainerUse) -> dict[ResourceName, int]:
    ids: dict[ResourceName, set[DeviceId]] = {}
    for block in container.devices:
        ids.setdefault(block.resource, set()).update(block.ids)
    return {resource: len(found) for resource, found in ids.items()}


def states_to_come(
    node: SteeringNode, state: SteeringState, found: Sequence[Reading], *, shapes: Sequence[Shape]
) -> tuple[SteeringState, ...]:
    """Return the states that the next admission may find, the likeliest first.

    ``state`` counts the grant. Where the container is of no known shape, what it still takes is unknown, and
    so is what is left on its nodes (``SteeringState.unsettled``); on all nodes if its own are not known.
    """
    states: list[SteeringState] = []
    for reading in found:
        if reading.mask:
            after = completions(node, state, reading.held, mask=reading.mask, shapes=shapes)
            states.extend(one for one in after if one not in states)
    return tuple(states) or (replace(state, unsettled=_unsettled(node, found)),)


def _unsettled(node: SteeringNode, found: Sequence[Reading]) -> int:
    mask = 0
    for reading in found:
        mask |= reading.mask or node.topology.mask
    return mask


def kept_nodes(
    node: SteeringNode,
    found: Sequence[Reading],
    *,
    shapes: Sequence[Shape],
    withheld: Mapping[ResourceName, AbstractSet[int]],
    certain: bool,
) -> dict[ResourceName, frozenset[int]]:
    """Return the NUMA nodes that stay exposed for what the container may still ask for.

    ``shapes`` are those that may be under admission; ``certain``: there are no others. If not, whatever is
    not withheld now (``withheld``) stays exposed on the container's nodes: with what is, it has been given
    its affinity.
    """
    kept: dict[ResourceName, int] = {}
    units = [unit for shape in shapes for unit in shape.units(node.scope)]
    for reading in found:
        missing = {
            resource
            for unit in units
            if reading.may_be(unit)
            for resource in unit.total
            if not is_compute(resource) and resource not in reading.held
        }
        for resource in node.steerable - reading.held.keys():
            if resource in missing:
                kept[resource] = kept.get(resource, 0) | reading.mask
            elif not certain:
                exposed = reading.mask & ~mask_of(withheld.get(resource, frozenset()))
                kept[resource] = kept.get(resource, 0) | exposed
    return {resource: frozenset(nodes_of(mask)) for resource, mask in kept.items() if mask}


def may_have_more_containers(node: SteeringNode, able: Iterable[PodUse]) -> bool:
    """Return whether the pod's affinity may be in use for longer than this container's admission.

    Under scope ``pod`` it was fixed for all containers at once: until they have their devices, nothing that
    they may get must lose its topology. Init containers are not listed, and hand theirs on.
    """
    return node.scope is Scope.POD and any(len(pod.containers) > 1 for pod in able)
