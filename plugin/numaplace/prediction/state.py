"""The node's present state as the kubelet's managers hold it, rebuilt from what PodResources shows.

PodResources does not show everything (init containers, the shared pool, UIDs): the state of the CPU and the
memory manager follows from the containers' exclusive CPUs and memory blocks. Where the two contradict each
other, ``StateUnknown`` says why, and nothing may be withheld.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from numaplace.managers.cpu.bits import bits_of, cpu_list
from numaplace.managers.cpu.policy import CpuPolicy
from numaplace.managers.cpu.state import CpuState
from numaplace.managers.cpu.static import StaticCpuPolicy
from numaplace.managers.device_manager import PodUid
from numaplace.managers.memory.machine import MachineMemory
from numaplace.managers.memory.policies import MemoryPolicy
from numaplace.managers.memory.static import MemoryState, StaticMemoryPolicy
from numaplace.model.mask import mask_of, width
from numaplace.model.names import CPU, ResourceName
from numaplace.model.podresources import MemoryBlock, PodUse
from numaplace.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class DeviceGroup:
    """The devices of one resource with the same NUMA nodes; ``mask`` 0: without topology.

    ``total`` counts all published ones, ``healthy`` and ``allocated`` the healthy ones and those in use of
    them. The rest of ``total`` is unhealthy: no one gets it, but it counts for the width that is preferred.
    """

    mask: int
    total: int
    healthy: int
    allocated: int = 0

    @property
    def free(self) -> int:
        return self.healthy - self.allocated


DeviceGroups = tuple[DeviceGroup, ...]


@dataclass(frozen=True, slots=True)
class SteeringState:
    """Who has what. Equal states have equal predictions.

    ``unsettled`` is the mask of NUMA nodes on which a container under admission may still take an unknown
    amount: what reads as free there is only an upper bound. ``snapshot`` says which pod has what, where that
    is known; a summary of it takes a millisecond with 60 pods, and one rule needs it (``held_by_others``).
    """

    devices: Mapping[ResourceName, DeviceGroups]
    cpu: CpuState
    memory: MemoryState
    unsettled: int = 0
    snapshot: Snapshot | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class StateUnknown:
    """Why the state is unknown; ``what`` is a clause for a sentence."""

    what: str


class _UnknownError(Exception):
    """Carries the clause of ``StateUnknown``."""


def state_of(
    snapshot: Snapshot, *, cpu: CpuPolicy, memory: MemoryPolicy, unsettled: int = 0
) -> SteeringState | StateUnknown:
    """Rebuild the managers' states from a snapshot; ``StateUnknown`` where the two do not fit.

    ``cpu`` and ``memory`` are the policies of this kubelet (``KubeletModel``).

    Free unhealthy devices of resources that are not ours cannot be seen. They count for the width that the
    kubelet prefers, but where it admits a request with that width the devices in it are seen, and they
    suffice: what is admitted is predicted right, and what only seems to be admitted is refused by any set.
    """
    try:
        _refuse_pod_level(snapshot.pods)
        return SteeringState(
            devices={resource: _groups(snapshot, resource) for resource in sorted(snapshot.device_states)},
            cpu=_cpu_state(snapshot, cpu),
            memory=_memory_state(snapshot, memory),
            unsettled=unsettled,
            snapshot=snapshot,
        )
    except _UnknownError as unknown:
        return StateUnknown(str(unknown))


def cpu_state_of(snapshot: Snapshot, policy: CpuPolicy) -> CpuState | StateUnknown:
    try:
        _refuse_pod_level(snapshot.pods)
        return _cpu_state(snapshot, policy)
    except _UnknownError as unknown:
        return StateUnknown(str(unknown))


def _refuse_pod_level(pods: Sequence[PodUse]) -> None:
    """Refuse pods with pod-level CPUs or memory: the managers here have that alpha gate off."""
    for pod in pods:
        of_containers = frozenset[int]().union(*(one.cpus for one in pod.containers))
        if pod.cpus - of_containers:
            raise _UnknownError(f"pod {_name(pod)} has pod-level CPUs")
        if pod.memory and not any(one.memory for one in pod.containers):
            raise _UnknownError(f"pod {_name(pod)} has pod-level memory")


def _name(pod: PodUse) -> str:
    return "/".join(pod.key)


def _groups(snapshot: Snapshot, resource: ResourceName) -> DeviceGroups:
    state = snapshot.device_states[resource]
    table = state.table
    total: Mapping[int, int] = table.capacity
    if len(table.free) != len(table.healthy):
        total = Counter(device.mask for device in table.free.values())
    found = map(table.healthy.get, state.in_use)
    allocated = Counter(mask for mask in found if mask is not None)
    return tuple(
        DeviceGroup(mask, total[mask], table.capacity.get(mask, 0), allocated[mask]) for mask in sorted(total)
    )


def _cpu_state(snapshot: Snapshot, policy: CpuPolicy) -> CpuState:
    held = {
        (PodUid(_name(pod)), one.name): bits_of(one.cpus)
        for pod in snapshot.pods
        for one in pod.containers
        if one.cpus
    }
    state = policy.initial_state()
    if not isinstance(policy, StaticCpuPolicy):
        if held:
            raise _UnknownError("containers have exclusive CPUs, but no static CPU manager is known")
        return state
    tally = snapshot.tallies.get(CPU)
    reported = 0 if tally is None else sum(allocatable for _, allocatable, _ in tally.groups)
    if reported != policy.allocatable_bits.bit_count():
        raise _UnknownError(
            f"the kubelet reports {reported} CPUs for exclusive use, "
            f"its configuration leaves {policy.allocatable_bits.bit_count()}"
        )
    taken = 0
    for bits in held.values():
        taken |= bits
    foreign = taken & ~policy.allocatable_bits
    if foreign:
        raise _UnknownError(f"CPUs {cpu_list(foreign)} are in exclusive use, but reserved or missing")
    return CpuState(state.default_bits & ~taken, held)


def _memory_state(snapshot: Snapshot, policy: MemoryPolicy) -> MemoryState:
    held = {
        (PodUid(_name(pod)), one.name): one.memory
        for pod in snapshot.pods
        for one in pod.containers
        if one.memory
    }
    state = policy.initial_state()
    if not isinstance(policy, StaticMemoryPolicy):
        if held:
            raise _UnknownError("containers have memory of NUMA nodes, but no Static memory manager is known")
        return state
    machine = state.machine
    for block in _narrow_first(held.values()):
        machine = _with_block(machine, block)
    _check_capacity(snapshot, policy)
    return MemoryState(machine, held)


def _narrow_first(held: Iterable[tuple[MemoryBlock, ...]]) -> list[MemoryBlock]:
    blocks = [block for of_container in held for block in of_container]
    return sorted(blocks, key=lambda block: (len(block.nodes), block.nodes, block.type))


def _with_block(machine: MachineMemory, block: MemoryBlock) -> MachineMemory:
    nodes = tuple(sorted(block.nodes))
    if not nodes or any(node not in machine.nodes for node in nodes):
        raise _UnknownError(f"{block.type} is held on NUMA nodes {list(nodes)}, which are not all known")
    if machine.violates_groups(mask_of(nodes)) or not machine.satisfies(
        mask_of(nodes), {block.type: block.size_bytes}
    ):
        raise _UnknownError(f"more {block.type} is held on NUMA nodes {list(nodes)} than they have")
    return machine.assign(nodes, block.type, size_bytes=block.size_bytes)


def _check_capacity(snapshot: Snapshot, policy: StaticMemoryPolicy) -> None:
    """Refuse where the kubelet reports another capacity: the reservation differs from its configuration."""
    for type_, sums in policy.capacity.sums.items():
        tally = snapshot.tallies.get(type_)
        groups = () if tally is None else tally.groups
        reported = {mask: allocatable for mask, allocatable, _ in groups if allocatable}
        expected = {mask: size for mask, size in sums.items() if size and width(mask) == 1}
        if reported != expected:
            raise _UnknownError(
                f"the kubelet reports other allocatable {type_} than its configuration leaves"
            )
