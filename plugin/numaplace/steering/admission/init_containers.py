"""What pods hold and PodResources does not show: of init containers, which it never lists.

What an init container had and no later container took over stays its pod's until the pod ends (CPU manager,
``updateCPUsToReuse``; memory manager, ``updatePodReusableMemory``; device manager, ``devicesToReuse``). Where
that is is not known, so what reads as free may not be free. The pod's spec shows it, and for devices the
kubelet's checkpoint (``state.unlisted_devices``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet

from numaplace.managers.admission import Scope
from numaplace.managers.device_manager import ContainerKind
from numaplace.managers.pod import Container, Pod
from numaplace.model.names import DeviceId, PodKey, ResourceName, is_memory
from numaplace.prediction.model import KubeletModel
from numaplace.prediction.pod_request import amounts_of, managed_part
from numaplace.prediction.request import Request, seen_requests
from numaplace.prediction.state import StateUnknown
from numaplace.state.attribution import Specs
from numaplace.state.snapshot import Snapshot


def why_unknown(
    snapshot: Snapshot,
    node: KubeletModel,
    *,
    unlisted: Mapping[ResourceName, Collection[DeviceId]],
    specs: Specs,
    but: Collection[PodKey],
) -> StateUnknown | None:
    """Return the first of these reasons: ``unlisted_in``, ``tied_in``, ``unseen_in``."""
    return (
        unlisted_in(snapshot, unlisted)
        or tied_in(specs.pods, node)
        or unseen_in(snapshot, specs.pods, node, but=but)
    )


def tied_in(specs: Mapping[PodKey, Pod], node: KubeletModel) -> StateUnknown | None:
    """Return why nothing is predicted, if init containers place the devices of pods like one of these.

    One that requests none of our resources is placed without a call to us, and a later container is admitted
    only where the exclusive CPUs and devices are that it takes over (CPU manager, generateCPUTopologyHints;
    device manager, generateDeviceTopologyHints). If its own devices are hidden there, it is refused.
    """
    if node.scope is Scope.POD:
        return None
    for key, pod in specs.items():
        for number, container in enumerate(pod.init_containers):
            if container.kind is not ContainerKind.INIT:
                continue
            handed_on = _hinted(pod, container, node)
            if not handed_on or handed_on & node.steerable:
                continue
            for later in pod.in_order[number + 1 :]:
                asked = _hinted(pod, later, node)
                if asked & handed_on and asked & node.steerable:
                    what = (
                        f"an init container of pods like {'/'.join(key)} determines where their devices are"
                    )
                    return StateUnknown(what)
    return None


def _hinted(pod: Pod, container: Container, node: KubeletModel) -> AbstractSet[ResourceName]:
    total = managed_part(Request.of(amounts_of(pod, container)), node).total
    return {resource for resource in total if not is_memory(resource)}


def unlisted_in(
    snapshot: Snapshot, unlisted: Mapping[ResourceName, Collection[DeviceId]]
) -> StateUnknown | None:
    """Return why the state is unknown, if the kubelet may hold devices that it does not list.

    Their container may have CPUs and memory, too.
    """
    for resource, ids in sorted(unlisted.items()):
        if ids and resource in snapshot.device_states:
            whom = "for a container that List does not show"
            return StateUnknown(f"the kubelet may hold {len(ids)} {resource} {whom}")
    return None


def unseen_in(
    snapshot: Snapshot, specs: Mapping[PodKey, Pod], node: KubeletModel, *, but: Collection[PodKey]
) -> StateUnknown | None:
    """Return why the state is unknown, if one of the listed pods holds more than is listed.

    ``but`` are the pods that may be under admission still. A pod without a spec is passed over.
    """
    for pod in snapshot.pods:
        spec = None if pod.key in but else specs.get(pod.key)
        if spec is None or not any(one.kind is ContainerKind.INIT for one in spec.init_containers):
            continue
        listed = next((request.total for request in seen_requests([pod])), {})
        needed = managed_part(Request.of(amounts_of(spec, None)), node).total
        for resource, amount in sorted(needed.items()):
            if resource in snapshot.tallies and amount > listed.get(resource, 0):
                name = "/".join(pod.key)
                return StateUnknown(
                    f"an init container of pod {name} keeps {resource} that List does not show"
                )
    return None
