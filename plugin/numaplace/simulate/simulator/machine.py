"""A scenario's hardware in the forms that the managers take, and what the node reserves of it."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from numaplace.errors import InputError
from numaplace.managers.cpu.topology import CpuDetail, CpuTopology
from numaplace.managers.memory.reserved import node_allocatable_reservation
from numaplace.model.names import CPU, MEMORY, ResourceName
from numaplace.model.topology import NumaTopology
from numaplace.simulate.scenario.records import CpuGroups, KubeletSettings, Machine

DEFAULT_HARD_EVICTION_BYTES = 100 * 1024**2
"""The kubelet's own default of ``evictionHard: {memory.available}``."""


def numa_topology(machine: Machine) -> NumaTopology:
    rows = zip(machine.ids, machine.distances, strict=True) if machine.distances else ()
    return NumaTopology(
        nodes=machine.ids,
        cpus={node.id: node.cpus for node in machine.numa_nodes},
        distances={node: dict(zip(machine.ids, row, strict=True)) for node, row in rows},
    )


def cpu_topology(machine: Machine) -> CpuTopology:
    """Return the CPUs by NUMA node, socket, last-level cache and core; ``InputError`` without any CPU.

    By default a NUMA node is a socket, a socket shares one cache, a CPU is a core.
    """
    groups = machine.cpu_groups
    socket_of = _owners(groups, "sockets")
    uncore_of = _owners(groups, "uncore_caches")
    core_of = {cpu: min(siblings) for siblings in groups.cores for cpu in siblings}
    details = {}
    for node in machine.numa_nodes:
        for cpu in node.cpus:
            socket = socket_of.get(cpu, node.id)
            details[cpu] = CpuDetail(
                numa=node.id,
                socket=socket,
                core=core_of.get(cpu, cpu),
                uncore_cache=uncore_of.get(cpu, socket),
            )
    if not details:
        raise InputError("the static CPU manager needs a NUMA node with CPUs")
    return CpuTopology.of(details)


def _owners(groups: CpuGroups, name: str) -> dict[int, int]:
    return {cpu: id_ for id_, cpus in getattr(groups, name).items() for cpu in cpus}


def reserved_millicores(settings: KubeletSettings) -> int:
    """Return what the node keeps of ``cpu``; ``reservedSystemCPUs`` overrides the other keys, as upstream."""
    if settings.reserved_cpus:
        return 1000 * len(settings.reserved_cpus)
    return settings.system_reserved.get(CPU, 0) + settings.kube_reserved.get(CPU, 0)


def reserved_memory_bytes(settings: KubeletSettings, machine: Machine) -> dict[ResourceName, int]:
    """Return what the node keeps of memory and hugepages, which ``reservedMemory`` has to add up to.

    Without a reservation in the scenario it is just that.
    """
    if not settings.states_reservation:
        total: Counter[ResourceName] = Counter()
        for one in settings.reserved_memory:
            total.update(one.limits)
        return dict(total)
    return dict(
        node_allocatable_reservation(
            system_reserved=settings.system_reserved,
            kube_reserved=settings.kube_reserved,
            hard_eviction_bytes=_hard_eviction_bytes(settings, machine),
        )
    )


def _hard_eviction_bytes(settings: KubeletSettings, machine: Machine) -> int:
    threshold = settings.hard_eviction
    if threshold is None:
        return DEFAULT_HARD_EVICTION_BYTES
    if isinstance(threshold, Fraction):
        return int(threshold * sum(node.sizes.get(MEMORY, 0) for node in machine.numa_nodes))
    return threshold
