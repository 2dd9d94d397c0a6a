"""What pods hold and PodResources does not show: of init containers, which it never lists.

What an init container had and no later container took over stays its pod's until the pod ends (CPU manager,
``updateCPUsToReuse``; memory manager, ``updatePodReusableMemory``; device manager, ``devicesToReuse``). Where
that is cannot be told, so what reads as free is not known to be free. It shows by the pod's spec, and of
devices by the kubelet's checkpoint (``state.unlisted``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from numaplace.managers.device_manager import ContainerKind
from numaplace.managers.pod import Pod
from numaplace.model.names import DeviceId, PodKey, ResourceName
from numaplace.state.snapshot import Snapshot
from numaplace.steering.node import SteeringNode
from numaplace.steering.shape import Shape, seen_shapes
from numaplace.steering.specs import amounts_of, managed_part
from numaplace.steering.state import StateUnknown


def unlisted_in(
    snapshot: Snapshot, unlisted: Mapping[ResourceName, Collection[DeviceId]]
) -> StateUnknown | None:
    """Return why the state is unknown, if the kubelet may hold devices that it does not list.

    Whoever has them may have CPUs and memory besides.
    """
    for resource, ids in sorted(unlisted.items()):
        if ids and resource in snapshot.device_states:
            return StateUnknown(f"the kubelet holds {len(ids)} {resource} for somebody that it does not list")
    return None


def unseen_in(
    snapshot: Snapshot, specs: Mapping[PodKey, Pod], node: SteeringNode, *, but: Collection[PodKey]
) -> StateUnknown | None:
    """Return why the state is unknown, if one of the listed pods holds more than is listed.

    ``but`` are the pods that may be under admission still. Of a pod without a spec nothing can be told.
    """
    for pod in snapshot.pods:
        spec = None if pod.key in but else specs.get(pod.key)
        if spec is None or not any(one.kind is ContainerKind.INIT for one in spec.init_containers):
            continue
        listed = next((shape.total for shape in seen_shapes([pod])), {})
        needed = managed_part(Shape.of(amounts_of(spec, None)), node).total
        for resource, amount in sorted(needed.items()):
            if resource in snapshot.tallies and amount > listed.get(resource, 0):
                name = "/".join(pod.key)
                return StateUnknown(f"an init container of pod {name} keeps {resource} that nobody shows")
    return None
