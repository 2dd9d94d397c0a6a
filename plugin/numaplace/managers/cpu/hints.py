"""The static policy's topology hints. Follows kubelet ``generateCPUTopologyHints``; scores as in KEP-6007."""

from __future__ import annotations

from numaplace.engine.hint import Hint
from numaplace.engine.score import utilization_score
from numaplace.managers.cpu.options import CpuPolicyOptions
from numaplace.managers.cpu.topology import CpuTopology


def cpu_hints(
    topology: CpuTopology,
    options: CpuPolicyOptions,
    *,
    available: int,
    reusable: int,
    wanted: int,
    allocatable: int,
    exclusive: int,
) -> tuple[Hint, ...]:
    """Return a hint for each set of NUMA nodes that holds the ``reusable`` and enough ``available`` CPUs.

    Narrow sets first. Preferred are the sets as narrow as the hardware allows: by all CPUs, reserved and
    taken ones included. ``exclusive`` of the ``allocatable`` CPUs make the score. All sets are bits; a CPU
    that is both reusable and available counts twice, as upstream counts.
    """
    narrowest = len(topology.numa)
    fitting = []
    missing = wanted - reusable.bit_count()
    for size in topology.mask_sizes():
        if size.nodes < narrowest and size.cpus >= wanted:
            narrowest = size.nodes
        if reusable & ~size.bits == 0 and (available & size.bits).bit_count() >= missing:
            fitting.append(size)
    in_sockets = _fewest_sockets(topology, narrowest) if options.align_by_socket else None
    return tuple(
        Hint(
            size.mask,
            preferred=size.nodes == narrowest or size.sockets == in_sockets,
            score=utilization_score(
                (allocatable & size.bits).bit_count(), (exclusive & size.bits).bit_count()
            ),
        )
        for size in fitting
    )


def _fewest_sockets(topology: CpuTopology, narrowest: int) -> int | None:
    """Return how many sockets ``narrowest`` NUMA nodes need; None where sockets hold no NUMA nodes.

    Reimplements ``isHintSocketAligned``.
    """
    per_socket = topology.num_numa // topology.num_sockets if topology.num_sockets else 0
    return (narrowest + per_socket - 1) // per_socket if per_socket else None
