"""Memory that init containers leave to the containers after them.

Only the pod that was admitted last has reusable memory, by the exact NUMA mask that it was given on. So that
the blocks of a pod add up to what the machine has reserved for it, a container that reuses memory shrinks
the blocks of the init containers before it, down to 0 bytes.

Reimplements kubelet v1.37.2 ``memorymanager/policy_static.go``: ``updatePodReusableMemory``,
``getPodReusableMemory``, ``updateInitContainersMemoryBlocks``, ``isRegularInitContainer``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from numaplace.managers.device_manager import ContainerKind, PodUid
from numaplace.managers.pod import Container, Pod
from numaplace.model.mask import mask_of
from numaplace.model.names import ResourceName
from numaplace.model.podresources import MemoryBlock

ContainerKey = tuple[PodUid, str]
"""A container by its pod's UID and its name."""

Assigned = Mapping[ContainerKey, tuple[MemoryBlock, ...]]

MaskAndType = tuple[int, ResourceName]


@dataclass(frozen=True, slots=True)
class Reusable:
    """Bytes that later containers of ``pod`` may use again, by NUMA mask and type."""

    pod: PodUid | None = None
    sizes: Mapping[MaskAndType, int] = field(default_factory=dict)

    def sizes_of(self, pod: PodUid) -> Mapping[MaskAndType, int]:
        """Return the reusable bytes of a pod; nothing for every other pod."""
        return self.sizes if pod == self.pod else {}

    def after(self, pod: Pod, container: Container, blocks: Sequence[MemoryBlock]) -> Reusable:
        """Return what is reusable once ``container`` has ``blocks``; another pod's memory is dropped.

        An init container raises it to its own size, a sidecar or app container uses it up.
        """
        sizes = dict(self.sizes_of(pod.uid))
        gives = is_regular_init(pod, container)
        for block in blocks:
            key = (mask_of(block.nodes), block.type)
            if gives:
                sizes[key] = max(sizes.get(key, 0), block.size_bytes)
            elif key in sizes:
                sizes[key] = max(0, sizes[key] - block.size_bytes)
        return Reusable(pod=pod.uid, sizes=sizes)


NOTHING_REUSABLE = Reusable()


def is_regular_init(pod: Pod, container: Container) -> bool:
    """Return whether the container is one of the pod's init containers, and no sidecar."""
    return any(
        one.name == container.name and one.kind is not ContainerKind.SIDECAR for one in pod.init_containers
    )


def shrink_init_blocks(
    assigned: Assigned, pod: Pod, *, container: Container, blocks: Sequence[MemoryBlock]
) -> Assigned:
    """Return the assignments with the earlier init containers' blocks reduced by what ``blocks`` reuse."""
    changed = dict(assigned)
    for block in blocks:
        left = block.size_bytes
        for init in pod.init_containers:
            if init.name == container.name or left == 0:
                break
            if init.kind is ContainerKind.SIDECAR:
                continue
            key = (pod.uid, init.name)
            if key in changed:
                changed[key], left = _shrink(changed[key], block, left=left)
    return changed


def _shrink(
    blocks: tuple[MemoryBlock, ...], reusing: MemoryBlock, *, left: int
) -> tuple[tuple[MemoryBlock, ...], int]:
    """Take up to ``left`` bytes from the blocks of the same type and mask; return them and the rest of it."""
    mask = mask_of(reusing.nodes)
    shrunk = []
    for block in blocks:
        taken = 0
        if block.type == reusing.type and mask_of(block.nodes) == mask:
            taken = min(block.size_bytes, left)
        left -= taken
        shrunk.append(replace(block, size_bytes=block.size_bytes - taken) if taken else block)
    return tuple(shrunk), left
