"""The memory requests of a pod or a container.

Reimplements kubelet v1.37.2 ``memorymanager/policy_static.go``: ``getContainerRequestedResources``,
``getPodRequestedResources``, both without the gate PodLevelResourceManagers (off by default in 1.37).
"""

from __future__ import annotations

from collections import Counter

from numaplace.managers.device_manager import ContainerKind
from numaplace.managers.pod import Container, Pod, QosClass
from numaplace.model.names import ResourceName, is_memory

Requests = dict[ResourceName, int]
"""Bytes by memory type, ordered by name. The kubelet walks a map here, so its blocks come in random order."""


def is_placed(pod: Pod) -> bool:
    """Return whether the memory manager allocates for the pod: Guaranteed, no pod-level resources."""
    return not pod.pod_level and pod.qos is QosClass.GUARANTEED


def container_requests(container: Container) -> Requests:
    """Return the container's bytes of memory and hugepages; a request of 0 counts as one."""
    return {type_: container.requests[type_] for type_ in sorted(container.requests) if is_memory(type_)}


def pod_requests(pod: Pod) -> Requests:
    """Return the most bytes that the pod needs at a time: what stays, or an init container and sidecars.

    A type that only init containers request is left out, as in the kubelet.
    """
    sidecars: Counter[ResourceName] = Counter()
    peak: Counter[ResourceName] = Counter()
    for container in pod.init_containers:
        for type_, size in container_requests(container).items():
            if container.kind is ContainerKind.SIDECAR:
                sidecars[type_] += size
            else:
                peak[type_] = max(peak[type_], sidecars[type_] + size)
    apps: Counter[ResourceName] = Counter()
    for container in pod.containers:
        apps.update(container_requests(container))
    return {type_: max(apps[type_] + sidecars[type_], peak[type_]) for type_ in sorted(apps)}
