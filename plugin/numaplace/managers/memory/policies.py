"""The memory manager's policies by the kubelet's names (``memoryManagerPolicy``).

``BestEffort`` exists on Windows only and is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from numaplace.engine.hint import Hint
from numaplace.managers.device_manager import PodUid
from numaplace.managers.memory.hints import Hints
from numaplace.managers.memory.machine import MachineMemory
from numaplace.managers.memory.static import MemoryState, static_policy
from numaplace.managers.pod import Container, Pod
from numaplace.model.podresources import MemoryBlock


class MemoryPolicy(Protocol):
    """A memory manager policy; ``StaticMemoryPolicy`` describes the methods."""

    def initial_state(self) -> MemoryState: ...

    def container_hints(self, state: MemoryState, pod: Pod, container: Container) -> Hints: ...

    def pod_hints(self, state: MemoryState, pod: Pod) -> Hints: ...

    def allocate(self, state: MemoryState, pod: Pod, container: Container, affinity: Hint) -> MemoryState: ...

    def remove(self, state: MemoryState, uid: PodUid, container: str) -> MemoryState: ...

    def blocks(self, state: MemoryState, uid: PodUid, container: str) -> tuple[MemoryBlock, ...]: ...

    def allocatable(self) -> tuple[MemoryBlock, ...]: ...


@dataclass(frozen=True, slots=True)
class NoneMemoryPolicy:
    """``None``: no hints, no assignments, nothing reported (``policy_none.go``)."""

    machine: MachineMemory

    def initial_state(self) -> MemoryState:
        return MemoryState(self.machine)

    def container_hints(self, state: MemoryState, pod: Pod, container: Container) -> Hints:
        return {}

    def pod_hints(self, state: MemoryState, pod: Pod) -> Hints:
        return {}

    def allocate(self, state: MemoryState, pod: Pod, container: Container, affinity: Hint) -> MemoryState:
        return state

    def remove(self, state: MemoryState, uid: PodUid, container: str) -> MemoryState:
        return state

    def blocks(self, state: MemoryState, uid: PodUid, container: str) -> tuple[MemoryBlock, ...]:
        return ()

    def allocatable(self) -> tuple[MemoryBlock, ...]:
        return ()


MEMORY_POLICIES: Mapping[str, Callable[[MachineMemory], MemoryPolicy]] = {
    "None": NoneMemoryPolicy,
    "Static": static_policy,
}
