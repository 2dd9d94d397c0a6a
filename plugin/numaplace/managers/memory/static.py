"""The memory manager's policy ``Static``: hints, allocation and release for Guaranteed pods.

States are values: to test an allocation, allocate and drop the result.

Reimplements kubelet v1.37.2 ``memorymanager/policy_static.go``: ``Allocate``, ``RemoveContainer``,
``GetTopologyHints``, ``GetPodTopologyHints``, ``getDefaultHint``, ``extendTopologyManagerHint``. The gate
PodLevelResourceManagers is assumed to be off (its default): pods with pod-level resources are skipped.

Where the kubelet walks a map at random and the result shows it (a container's blocks, allocatable blocks),
the order here is by name of the type.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from numaplace.engine.hint import Hint
from numaplace.errors import AllocationError, InputError
from numaplace.managers.device_manager import PodUid
from numaplace.managers.memory.hints import (
    Capacity,
    Hints,
    best_hint,
    calculate_hints,
    capacity_of,
    regenerate_hints,
)
from numaplace.managers.memory.machine import MachineMemory
from numaplace.managers.memory.requests import Requests, container_requests, is_placed, pod_requests
from numaplace.managers.memory.reuse import NOTHING_REUSABLE, Assigned, Reusable, shrink_init_blocks
from numaplace.managers.pod import Container, Pod
from numaplace.model.mask import is_subset, nodes_of
from numaplace.model.names import MEMORY
from numaplace.model.podresources import MemoryBlock

MAX_NUMA_NODES = 16
"""The kubelet walks every set of NUMA nodes; with more nodes than this no admission would end."""


class MemoryRefusal(StrEnum):
    """Why a container gets no memory (``AllocationError.reason``); the kubelet fails the pod's admission."""

    NO_DEFAULT_AFFINITY = "no-default-affinity"
    NO_PREFERRED_DEFAULT = "no-preferred-default"
    NO_EXTENSION = "no-extension"
    NO_PREFERRED_EXTENSION = "no-preferred-extension"
    VIOLATES_GROUPS = "violates-groups"


@dataclass(frozen=True, slots=True)
class MemoryState:
    """The memory manager's state. ``reusable`` is of one pod at most and lost at a restart."""

    machine: MachineMemory
    assigned: Assigned = field(default_factory=dict)
    reusable: Reusable = NOTHING_REUSABLE


@dataclass(frozen=True, slots=True)
class StaticMemoryPolicy:
    """``Static`` on one machine. Make it with ``static_policy``."""

    machine: MachineMemory
    capacity: Capacity

    def initial_state(self) -> MemoryState:
        return MemoryState(self.machine)

    def container_hints(self, state: MemoryState, pod: Pod, container: Container) -> Hints:
        """Return the hints for one container (scope ``container``); empty for "no preference"."""
        requests = container_requests(container)
        if not requests or not is_placed(pod):
            return {}
        blocks = state.assigned.get((pod.uid, container.name))
        if blocks is not None:
            return regenerate_hints(state.machine, blocks, requests)
        return self._hints(state, pod, requests)

    def pod_hints(self, state: MemoryState, pod: Pod) -> Hints:
        """Return the hints for the whole pod (scope ``pod``); empty for "no preference"."""
        requests = pod_requests(pod)
        if not requests or not is_placed(pod):
            return {}
        for container in pod.in_order:
            blocks = state.assigned.get((pod.uid, container.name))
            if blocks is not None:
                return regenerate_hints(state.machine, blocks, requests)
        return self._hints(state, pod, requests)

    def allocate(self, state: MemoryState, pod: Pod, container: Container, affinity: Hint) -> MemoryState:
        """Return the state in which the container has its memory; a second call changes no memory.

        ``affinity`` is the Topology Manager's hint; the manager chooses a mask itself if it names none and
        widens it if its nodes hold too little. Raises ``AllocationError`` with a ``MemoryRefusal``.
        """
        requests = container_requests(container)
        if not requests or not is_placed(pod):
            return state
        key = (pod.uid, container.name)
        present = state.assigned.get(key)
        if present is not None:
            return replace(state, reusable=state.reusable.after(pod, container, present))
        mask = self._choose(state, pod, requests=requests, affinity=affinity)
        blocks = tuple(
            MemoryBlock(type=type_, size_bytes=size, nodes=nodes_of(mask)) for type_, size in requests.items()
        )
        assigned = shrink_init_blocks(
            {**state.assigned, key: blocks}, pod, container=container, blocks=blocks
        )
        return MemoryState(
            machine=_taken(state, pod, mask=mask, blocks=blocks),
            assigned=assigned,
            reusable=state.reusable.after(pod, container, blocks),
        )

    def remove(self, state: MemoryState, uid: PodUid, container: str) -> MemoryState:
        """Return the state without the container's memory; the same state if it has none."""
        blocks = state.assigned.get((uid, container))
        if blocks is None:
            return state
        machine = state.machine
        for block in blocks:
            machine = machine.release(block)
        rest = {key: held for key, held in state.assigned.items() if key != (uid, container)}
        return replace(state, machine=machine, assigned=rest)

    def blocks(self, state: MemoryState, uid: PodUid, container: str) -> tuple[MemoryBlock, ...]:
        """Return the container's memory (``GetMemory``); later containers reused blocks of 0 bytes."""
        return state.assigned.get((uid, container), ())

    def allocatable(self) -> tuple[MemoryBlock, ...]:
        """Return the allocatable memory by node and type (``GetAllocatableMemory``)."""
        return self.machine.allocatable_blocks()

    def _hints(self, state: MemoryState, pod: Pod, requests: Requests) -> Hints:
        return calculate_hints(
            state.machine,
            requests,
            capacity=self.capacity,
            reusable=state.reusable.sizes_of(pod.uid),
        )

    def _choose(self, state: MemoryState, pod: Pod, *, requests: Requests, affinity: Hint) -> int:
        """Return the mask that the container's memory comes from."""
        mask, preferred = affinity.mask, affinity.preferred
        if mask is None:
            found = self._default_hint(state, pod, requests)
            if preferred and not found.preferred:
                raise AllocationError(
                    "no NUMA nodes of the preferred width have enough free memory",
                    reason=MemoryRefusal.NO_PREFERRED_DEFAULT,
                )
            mask, preferred = found.mask or 0, found.preferred
        if not state.machine.satisfies(mask, requests):
            found = self._extended_hint(state, pod, requests=requests, mask=mask)
            if preferred and not found.preferred:
                raise AllocationError(
                    f"NUMA nodes {_named(mask)} have too little free memory,"
                    " and no set of the preferred width includes them and has enough",
                    reason=MemoryRefusal.NO_PREFERRED_EXTENSION,
                )
            mask = found.mask or 0
        if state.machine.violates_groups(mask):
            raise AllocationError(
                f"NUMA nodes {_named(mask)} cannot serve together: one of them has an allocation"
                " of its own or in another group",
                reason=MemoryRefusal.VIOLATES_GROUPS,
            )
        return mask

    def _default_hint(self, state: MemoryState, pod: Pod, requests: Requests) -> Hint:
        # The masks are the same for every type, so those of memory are used.
        found = best_hint(self._hints(state, pod, requests).get(MEMORY, ()))
        if found is None:
            raise AllocationError(
                "no NUMA nodes have enough free memory", reason=MemoryRefusal.NO_DEFAULT_AFFINITY
            )
        return found

    def _extended_hint(self, state: MemoryState, pod: Pod, *, requests: Requests, mask: int) -> Hint:
        hints = self._hints(state, pod, requests).get(MEMORY, ())
        found = best_hint([hint for hint in hints if is_subset(mask, hint.mask or 0)])
        if found is None:
            raise AllocationError(
                f"NUMA nodes {_named(mask)} have too little free memory,"
                " and no set that includes them has enough",
                reason=MemoryRefusal.NO_EXTENSION,
            )
        return found


def _taken(state: MemoryState, pod: Pod, *, mask: int, blocks: Iterable[MemoryBlock]) -> MachineMemory:
    """Return the machine with what the blocks need beyond the pod's reusable memory taken."""
    reusable = state.reusable.sizes_of(pod.uid)
    machine = state.machine
    for block in blocks:
        missing = max(0, block.size_bytes - reusable.get((mask, block.type), 0))
        machine = machine.assign(block.nodes, block.type, size_bytes=missing)
    return machine


def _named(mask: int) -> str:
    return ",".join(map(str, nodes_of(mask)))


def static_policy(machine: MachineMemory) -> StaticMemoryPolicy:
    """Return the policy for a machine as ``machine_memory`` makes it (``NewPolicyStatic``).

    Raises ``InputError`` if no memory is reserved for the system (the kubelet would not start), or if there
    are more than ``MAX_NUMA_NODES``.
    """
    if not any(node.table(MEMORY).system_reserved for node in machine.nodes.values()):
        raise InputError(
            "memory manager policy Static: reservedMemory must reserve memory on at least one NUMA node"
        )
    if len(machine.nodes) > MAX_NUMA_NODES:
        raise InputError(
            f"memory manager policy Static: {len(machine.nodes)} NUMA nodes are too many,"
            f" at most {MAX_NUMA_NODES} are supported"
        )
    return StaticMemoryPolicy(machine=machine, capacity=capacity_of(machine))
