"""The memory manager's policies by the kubelet's names for them (``memoryManagerPolicy``).

``BestEffort`` exists on Windows only and is not ported.
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
    """What every policy does; see ``StaticMemoryPolicy`` for the meaning."""

    def initial_state(self) -> MemoryState:
        """Return the state of a node without pods."""
        ...

    def container_hints(self, state: MemoryState, pod: Pod, container: Container) -> Hints:
        """Return the hints for one container."""
        ...

    def pod_hints(self, state: MemoryState, pod: Pod) -> Hints:
        """Return the hints for the whole pod."""
        ...

    def allocate(self, state: MemoryState, pod: Pod, container: Container, affinity: Hint) -> MemoryState:
        """Return the state in which the container has its memory."""
        ...

    def remove(self, state: MemoryState, uid: PodUid, container: str) -> MemoryState:
        """Return the state without the container's memory."""
        ...

    def blocks(self, state: MemoryState, uid: PodUid, container: str) -> tuple[MemoryBlock, ...]:
        """Return the container's memory."""
        ...

    def allocatable(self) -> tuple[MemoryBlock, ...]:
        """Return the allocatable memory by node and type."""
        ...


@dataclass(frozen=True, slots=True)
class NoneMemoryPolicy:
    """``None``: no hints, no assignments, nothing reported (port of ``policy_none.go``)."""

    machine: MachineMemory

    def initial_state(self) -> MemoryState:
        """Return the state, which stays as it is."""
        return MemoryState(self.machine)

    def container_hints(self, state: MemoryState, pod: Pod, container: Container) -> Hints:
        """Return no hints."""
        return {}

    def pod_hints(self, state: MemoryState, pod: Pod) -> Hints:
        """Return no hints."""
        return {}

    def allocate(self, state: MemoryState, pod: Pod, container: Container, affinity: Hint) -> MemoryState:
        """Return the same state."""
        return state

    def remove(self, state: MemoryState, uid: PodUid, container: str) -> MemoryState:
        """Return the same state."""
        return state

    def blocks(self, state: MemoryState, uid: PodUid, container: str) -> tuple[MemoryBlock, ...]:
        """Return no blocks."""
        return ()

    def allocatable(self) -> tuple[MemoryBlock, ...]:
        """Return no blocks."""
        return ()


MEMORY_POLICIES: Mapping[str, Callable[[MachineMemory], MemoryPolicy]] = {
    "None": NoneMemoryPolicy,
    "Static": static_policy,
}
