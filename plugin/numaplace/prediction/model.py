"""The node as the kubelet is configured on it: all that does not change between two admissions."""

from __future__ import annotations

from dataclasses import dataclass, field

from numaplace.engine.options import PolicyName, PolicyOptions
from numaplace.errors import InputError
from numaplace.managers.admission import Scope
from numaplace.managers.cpu.options import CpuPolicyOptions
from numaplace.managers.cpu.policy import CpuPolicy, NoneCpuPolicy
from numaplace.managers.cpu.static import StaticCpuPolicy
from numaplace.managers.cpu.topology import CpuTopology
from numaplace.managers.memory.hints import capacity_of
from numaplace.managers.memory.machine import MachineMemory, MemoryTable, NodeMemory
from numaplace.managers.memory.policies import MemoryPolicy, NoneMemoryPolicy
from numaplace.managers.memory.static import StaticMemoryPolicy
from numaplace.model.names import ResourceName
from numaplace.model.podresources import Allocatable
from numaplace.model.topology import NumaTopology


@dataclass(frozen=True, slots=True)
class KubeletModel:
    """What is known about the kubelet. ``None`` for ``policy``, ``cpu`` or ``memory``: not known.

    ``problem`` is a clause that says why one of them is not. ``options`` are the Topology Manager's own.
    ``steerable`` are the resources whose published topology steering may change; hints of the others count
    all the same. ``hints_over_all_nodes``: as before 1.36, device hints name nodes without devices, too,
    which matters under ``best-effort`` only; which kubelet it is is not known (``Forecast.worse``).
    """

    topology: NumaTopology
    policy: PolicyName | None
    scope: Scope = Scope.CONTAINER
    options: PolicyOptions = field(default_factory=PolicyOptions)
    cpu: CpuPolicy | None = None
    memory: MemoryPolicy | None = None
    steerable: frozenset[ResourceName] = frozenset()
    problem: str = ""
    hints_over_all_nodes: bool = False

    @property
    def refuses(self) -> bool:
        return self.policy in (PolicyName.RESTRICTED, PolicyName.SINGLE_NUMA_NODE)


def cpu_policy_from(
    allocatable: Allocatable, topology: CpuTopology, *, options: CpuPolicyOptions, static: bool
) -> CpuPolicy | None:
    """Return the CPU manager's policy with the reservation that ``allocatable`` shows; None if it shows none.

    ``allocatable.cpus`` are all CPUs but the reserved ones under the static policy, and none under ``none``.
    """
    if static != bool(allocatable.cpus):
        return None
    if not static:
        return NoneCpuPolicy()
    reserved = topology.cpus - allocatable.cpus
    try:
        return StaticCpuPolicy.reserving(topology, options, count=len(reserved), reserved_cpus=reserved)
    except InputError:
        return None


def memory_policy_from(
    allocatable: Allocatable, topology: NumaTopology, *, static: bool
) -> MemoryPolicy | None:
    """Return the memory manager's policy on the memory that ``allocatable`` shows; None if it shows none.

    The kubelet reports one block per NUMA node and type under ``Static``, and none under ``None``.
    """
    if static != bool(allocatable.memory):
        return None
    tables: dict[int, dict[ResourceName, MemoryTable]] = {node: {} for node in topology.nodes}
    for block in allocatable.memory:
        if len(block.nodes) != 1 or block.nodes[0] not in tables:
            return None
        size = block.size_bytes
        tables[block.nodes[0]][block.type] = MemoryTable(total=size, allocatable=size, free=size)
    machine = MachineMemory({node: NodeMemory(found, (node,)) for node, found in tables.items()})
    if not static:
        return NoneMemoryPolicy(machine)
    return StaticMemoryPolicy(machine=machine, capacity=capacity_of(machine))
