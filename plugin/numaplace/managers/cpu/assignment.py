"""Which CPUs a container gets: packed. Follows kubelet ``cpu_assignment.go``.

Sets of CPUs are bits here (``bits.py``). ``distribution.py`` distributes CPUs over NUMA nodes.
"""

from __future__ import annotations

from numaplace.errors import AllocationError
from numaplace.managers.cpu.accumulator import Accumulator
from numaplace.managers.cpu.refusal import CpuRefusal, too_few
from numaplace.managers.cpu.topology import CpuTopology


def take_by_topology_packed(
    topology: CpuTopology,
    available: int,
    *,
    wanted: int,
    spread: bool = False,
    prefer_uncore: bool = False,
) -> int:
    """Take ``wanted`` of the ``available`` CPUs, filling the fullest parts first.

    Whole sockets and NUMA nodes, then, with ``prefer_uncore``, last-level caches, whole cores (not with
    ``spread``, which is ``distribute-cpus-across-cores``), single CPUs. Port of
    ``takeByTopologyNUMAPacked``. Raises ``AllocationError`` with a reason of ``CpuRefusal``.
    """
    acc = Accumulator(topology, available, wanted, spread=spread)
    if acc.satisfied:
        return acc.result
    if acc.failed:
        raise too_few(wanted, available.bit_count())
    steps = [acc.take_full_first_level, acc.take_full_second_level]
    if prefer_uncore:
        steps.append(acc.take_uncore)
    if not spread:
        steps.append(acc.take_full_cores)
    steps.append(acc.take_remaining)
    for step in steps:
        step()
        if acc.satisfied:
            return acc.result
    raise AllocationError(f"no way to take {wanted} CPUs was found", reason=CpuRefusal.NOT_FOUND)
