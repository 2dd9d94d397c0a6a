"""Who sent the request, and for what, once the specs of the pods are known.

``state.admission`` finds the pods that can have sent it. Of those, only a pod counts some container of which
requests this number of the resource, and that container must not be done yet. One pod left: it is the one.
Several, all specs known and all with the same request: the request is known even if the pod is not.

The specs may be a moment older or newer than the List. A pod without a spec stays a candidate; if no
candidate fits its spec, the specs prove nothing. A pod that replaced another one under its name within that
moment is read with its predecessor's spec, which it mostly shares.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce

from numaplace.managers.device_manager import ContainerKind
from numaplace.managers.pod import Container, Pod, QosClass
from numaplace.model.names import CPU, Amounts, PodKey, ResourceName, is_memory
from numaplace.model.podresources import ContainerUse, PodUse
from numaplace.state.admission import Admission, can_ask, has_resource, is_done, last_touched
from numaplace.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Specs:
    """The pods of the node as the API server has them, without those that have ended.

    Kubelets list no pod that has ended, so what a List shows under its name is another pod.
    """

    pods: Mapping[PodKey, Pod] = field(default_factory=dict)


NO_SPECS = Specs()


@dataclass(frozen=True, slots=True)
class Attribution:
    """Who sent the request. ``pod``, ``container`` and ``request`` are ``None`` where that is not known.

    ``request`` is all that the container requests (as ``pinned_request``), ``rest`` the part of it that it
    does not hold yet, without the resource of the request. ``later`` is the most that a container after
    it requests, by limit, if it may be an init container that hands its devices on; ``None``: not known.
    """

    admission: Admission
    pod: Pod | None = None
    container: str | None = None
    request: Amounts | None = None
    rest: Amounts = field(default_factory=dict)
    later: Amounts | None = None


@dataclass(frozen=True, slots=True)
class _Asker:
    pod: Pod
    container: Container
    use: ContainerUse | None

    @property
    def held(self) -> frozenset[ResourceName]:
        return frozenset(block.resource for block in self.use.devices) if self.use else frozenset()

    @property
    def later(self) -> Amounts:
        """What is requested by containers that have to take over what this one holds."""
        most: dict[ResourceName, int] = {}
        if self.container.kind is ContainerKind.INIT:
            after = self.pod.in_order.index(self.container) + 1
            for container in self.pod.in_order[after:]:
                most = _larger(most, container.limits)
        return most


def attribute(
    admission: Admission,
    resource: ResourceName,
    size: int,
    *,
    specs: Specs,
) -> Attribution:
    unknown: list[PodUse] = []
    askers: list[tuple[PodUse, _Asker]] = []
    for use in admission.able:
        spec = specs.pods.get(use.key)
        if spec is None or not _belong_together(use, spec):
            unknown.append(use)
        else:
            askers.extend((use, asker) for asker in _askers(use, spec, resource, size))
    able = {id(use): use for use in (*unknown, *(use for use, _ in askers))}
    if not able:
        return Attribution(admission)
    admission = Admission(tuple(able.values()))
    if unknown:
        return Attribution(admission)
    found = [asker for _, asker in askers]
    requests = [pinned_request(asker.pod, asker.container) for asker in found]
    request = requests[0] if all(one == requests[0] for one in requests) else None
    held = found[0].held if len(found) == 1 else frozenset((resource,))
    return Attribution(
        admission,
        pod=found[0].pod if admission.pod is not None else None,
        container=found[0].container.name if len(found) == 1 else None,
        request=request,
        rest={name: amount for name, amount in (request or {}).items() if name not in held | {resource}},
        later=reduce(_larger, (asker.later for asker in found)),
    )


def _larger(a: Amounts, b: Amounts) -> dict[ResourceName, int]:
    return {name: max(a.get(name, 0), b.get(name, 0)) for name in {**a, **b}}


def attributed_nodes(attribution: Attribution, *, snapshot: Snapshot) -> int | None:
    """Return the mask of the NUMA nodes of the known container's devices (0: none); ``None`` if not known."""
    pod = attribution.admission.pod
    if pod is None or attribution.container is None:
        return None
    return next(
        (snapshot.container_mask(one) for one in pod.containers if one.name == attribution.container), 0
    )


def pinned_request(pod: Pod, container: Container) -> dict[ResourceName, int]:
    """Return what the kubelet takes from NUMA nodes for the container: only that counts for placement.

    Devices in pieces, exclusive CPUs as whole ones, memory and hugepages in bytes. CPUs and memory only of a
    Guaranteed pod (CPU manager ``guaranteedCPUs``, memory manager ``getRequestedResources``).
    """
    found = {name: amount for name, amount in container.limits.items() if "/" in name and amount > 0}
    if pod.qos is QosClass.GUARANTEED and not pod.pod_level:
        if container.whole_cpus:
            found[CPU] = container.whole_cpus
        found |= {name: amount for name, amount in container.limits.items() if amount > 0 and is_memory(name)}
    return found


def may_still_ask(use: PodUse, resources: Collection[ResourceName], *, specs: Specs) -> bool:
    spec = specs.pods.get(use.key)
    if spec is None or not _belong_together(use, spec):
        return any(can_ask(use, resource) for resource in resources)
    return any(True for resource in resources for _ in _askers(use, spec, resource, None))


def _belong_together(use: PodUse, spec: Pod) -> bool:
    return {one.name for one in use.containers} <= {one.name for one in spec.in_order}


def _askers(use: PodUse, spec: Pod, resource: ResourceName, size: int | None) -> Iterator[_Asker]:
    """Yield the containers that can have sent the request: none before one that holds something, none done.

    ``size`` is how many they request; ``None``: any number.

    Init containers are not listed, so a done one cannot be distinguished from one to come.
    """
    listed = {one.name: one for one in use.containers}
    last = last_touched(use)
    touched = use.containers[last].name if last >= 0 else None
    passed = touched is None
    for container in spec.in_order:
        passed = passed or container.name == touched
        asked = container.limits.get(resource, 0)
        if not passed or not asked or size not in (None, asked):
            continue
        holding = listed.get(container.name)
        if holding is None or not (is_done(holding) or has_resource(holding, resource)):
            yield _Asker(spec, container, holding)
