"""When memory comes free besides the end of a container.

Ports of kubelet v1.37.2 ``memorymanager/memory_manager.go``: ``AddContainer``, ``removeStaleState``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from numaplace.managers.device_manager import ContainerKind, PodUid
from numaplace.managers.memory.policies import MemoryPolicy
from numaplace.managers.memory.static import MemoryState
from numaplace.managers.pod import Container, Pod


def container_created(
    policy: MemoryPolicy, state: MemoryState, *, pod: Pod, container: Container
) -> MemoryState:
    """Return the state once the container exists: the init containers before it have ended, sidecars not."""
    for init in pod.init_containers:
        if init.name == container.name:
            break
        if init.kind is not ContainerKind.SIDECAR:
            state = policy.remove(state, pod.uid, init.name)
    return state


def release_stale(
    policy: MemoryPolicy, state: MemoryState, *, active: Mapping[PodUid, Collection[str]]
) -> MemoryState:
    """Return the state without containers that are not of an active pod; runs before hints and allocations.

    ``active`` holds the container names of every active pod, init containers included.
    """
    for uid, name in sorted(state.assigned):
        if name not in active.get(uid, ()):
            state = policy.remove(state, uid, name)
    return state
