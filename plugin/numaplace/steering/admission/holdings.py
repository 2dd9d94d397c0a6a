"""The container that is under admission when Allocate is answered: what it may hold, and may still request.

The API does not name it. It holds the granted devices; and perhaps those that an earlier call gave to the
last container of the pod under admission (``state.admission``). Where that is not certain there are several
possible holdings, and a withheld set has to be right for all of them.

What it still gets is taken at once after the answer: devices by the Topology Manager's affinity, which is
fixed by now. So the nodes of that affinity stay exposed for the resources that it may still request.

An init container is not listed, and hands what it has on to the next container, which is admitted only where
all of that is (device manager, generateDeviceTopologyHints; CPU manager, generateCPUTopologyHints). So what
that one requests, more devices of the same resource too, stays exposed on the nodes of the init container's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from numaplace.managers.admission import Scope
from numaplace.model.names import DeviceId, ResourceName
from numaplace.model.podresources import ContainerUse, PodUse, ids_by_resource
from numaplace.prediction.model import KubeletModel
from numaplace.prediction.predict import Withheld
from numaplace.prediction.request import Request, is_compute
from numaplace.prediction.state import SteeringState
from numaplace.state.admission import has_resource, is_done, last_touched
from numaplace.state.snapshot import Snapshot
from numaplace.steering.admission.next_states import next_states


@dataclass(frozen=True, slots=True)
class PossibleHoldings:
    """Devices that the container under admission may hold by now, counted by resource and mask.

    ``mask`` is that of all their NUMA nodes.
    """

    devices: Mapping[ResourceName, Mapping[int, int]]
    mask: int

    @property
    def held(self) -> dict[ResourceName, int]:
        return {resource: sum(counts.values()) for resource, counts in self.devices.items()}

    def may_be(self, unit: Request) -> bool:
        """Return whether a unit of this request can hold just that while it is admitted."""
        total = unit.total
        return all(total.get(resource, 0) == count for resource, count in self.held.items())

    def may_be_handed_on_to(self, unit: Request) -> bool:
        """Return whether a unit of this request has use for what an init container of another has held."""
        return any(unit.total.get(resource, 0) for resource in self.devices)


def possible_holdings(
    snapshot: Snapshot, able: Iterable[PodUse], resource: ResourceName, ids: Iterable[DeviceId]
) -> tuple[PossibleHoldings, ...]:
    """Return what may be held after a grant that the snapshot counts, likeliest first; always one or more.

    ``able`` are the pods that can have requested the resource (``AdmissionLog.admission_for``), as
    listed before.
    """
    granted = {resource: _by_mask(snapshot, resource, frozenset(ids))}
    mask = 0
    for one in granted[resource]:
        mask |= one
    found = [PossibleHoldings(granted, mask)]
    for pod in able:
        container = _begun(pod, resource)
        if container is not None:
            held = _counted(snapshot, container)
            found.insert(0, PossibleHoldings({**held, **granted}, mask | snapshot.container_mask(container)))
    return tuple(one for number, one in enumerate(found) if one not in found[:number])


def _begun(pod: PodUse, resource: ResourceName) -> ContainerUse | None:
    """Return the pod's last container that holds something, if it can be the one that just got more."""
    last = last_touched(pod)
    if last < 0 or is_done(pod.containers[last]) or has_resource(pod.containers[last], resource):
        return None
    return pod.containers[last]


def _counted(snapshot: Snapshot, container: ContainerUse) -> dict[ResourceName, Mapping[int, int]]:
    held = ids_by_resource(container.devices)
    return {resource: _by_mask(snapshot, resource, ids) for resource, ids in held.items()}


def _by_mask(snapshot: Snapshot, resource: ResourceName, ids: AbstractSet[DeviceId]) -> Mapping[int, int]:
    known = snapshot.devices(resource)
    return Counter(known[one].mask if one in known else 0 for one in ids)


def states_to_come(
    node: KubeletModel,
    state: SteeringState,
    found: Sequence[PossibleHoldings],
    *,
    requests: Sequence[Request],
) -> tuple[SteeringState, ...]:
    """Return the states that the next admission may find, the likeliest first.

    ``state`` counts the grant. Where the container is of no known request, what it still takes is unknown,
    and so is what is left on its nodes (``SteeringState.unsettled``); on all nodes if its own are not known.
    The last ones are those where the admission fails and all is given back.
    """
    states: list[SteeringState] = []
    for holdings in found:
        if holdings.mask:
            after = next_states(node, state, holdings.held, mask=holdings.mask, requests=requests)
            states.extend(one for one in after if one not in states)
    unsettled = 0
    if not states:
        unsettled = _unsettled(node, found)
        states.append(replace(state, unsettled=unsettled))
    undone = (replace(_undone(state, holdings), unsettled=unsettled) for holdings in found)
    states.extend(one for one in undone if one not in states)
    return tuple(states)


def _undone(state: SteeringState, holdings: PossibleHoldings) -> SteeringState:
    devices = dict(state.devices)
    for resource, counts in holdings.devices.items():
        devices[resource] = tuple(
            replace(group, allocated=max(0, group.allocated - counts.get(group.mask, 0)))
            for group in devices.get(resource, ())
        )
    return replace(state, devices=devices)


def _unsettled(node: KubeletModel, found: Sequence[PossibleHoldings]) -> int:
    mask = 0
    for holdings in found:
        mask |= holdings.mask or node.topology.mask
    return mask


def kept_nodes(
    node: KubeletModel,
    found: Sequence[PossibleHoldings],
    *,
    requests: Sequence[Request],
    withheld: Withheld,
    certain: bool,
    later: Mapping[ResourceName, int] | None = None,
) -> dict[ResourceName, int]:
    """Return the NUMA nodes that stay exposed for what the container, or one after it, may still request.

    ``requests`` are those that may be under admission; ``certain``: there are no others. If not, whatever is
    not withheld now (``withheld``) stays exposed on the container's nodes: with what is, it has been given
    its affinity. ``later`` is what takes over from it (``Attribution.later``); ``None``: any unit may.
    """
    kept: dict[ResourceName, int] = {}
    units = [unit for request in requests for unit in request.units(node.scope)]
    for holdings in found:
        held = holdings.held
        missing = {
            resource
            for unit in units
            if holdings.may_be(unit)
            for resource in unit.total
            if not is_compute(resource) and resource not in held
        }
        missing |= _handed_on(holdings, units) if later is None else _more(holdings, later)
        for resource in node.steerable:
            if resource in missing:
                kept[resource] = kept.get(resource, 0) | holdings.mask
            elif not certain and resource not in held:
                exposed = holdings.mask & ~withheld.get(resource, 0)
                kept[resource] = kept.get(resource, 0) | exposed
    return {resource: mask for resource, mask in kept.items() if mask}


def _more(holdings: PossibleHoldings, asked: Mapping[ResourceName, int]) -> set[ResourceName]:
    held = holdings.held
    return {resource for resource, amount in asked.items() if amount > held.get(resource, 0)}


def _handed_on(holdings: PossibleHoldings, units: Sequence[Request]) -> set[ResourceName]:
    """Return what the next container may request, if this is an init container of a pod that is not known.

    One that holds an amount of no known unit surely is, of a unit that is not declared by itself.
    """
    held = holdings.held
    alien = {
        resource
        for resource, count in held.items()
        if all(unit.total.get(resource, 0) != count for unit in units)
    }
    taking = [unit for unit in units if holdings.may_be_handed_on_to(unit)]
    return alien.union(*(_more(holdings, unit.total) for unit in taking))


def may_have_more_containers(node: KubeletModel, able: Iterable[PodUse]) -> bool:
    """Return whether the pod's affinity may be in use for longer than this container's admission.

    Under scope ``pod`` it was fixed for all containers at once: until they have their devices, nothing that
    they may get must lose its topology. Init containers are not listed, and hand theirs on. ``able`` are the
    pods that may have sent the request; without one it is not known.
    """
    entries = tuple(able)
    return node.scope is Scope.POD and (not entries or any(len(pod.containers) > 1 for pod in entries))
