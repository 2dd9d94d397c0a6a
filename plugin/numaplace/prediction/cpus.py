"""Where the kubelet will take a container's exclusive CPUs from, when no Topology Manager tells it where.

Under policy ``none`` the static CPU manager chooses by itself, after the devices, and its choice can be
predicted from what is free. GetPreferredAllocation comes before: devices can go where the CPUs will be.
"""

from __future__ import annotations

from numaplace.engine.hint import ANY_NODE
from numaplace.errors import AllocationError
from numaplace.managers.cpu.policy import CpuPolicy
from numaplace.managers.cpu.state import CpuState
from numaplace.managers.cpu.static import StaticCpuPolicy
from numaplace.managers.pod import Pod
from numaplace.model.mask import mask_of
from numaplace.model.topology import NumaTopology

MOST_DISTRIBUTED_NODES = 8
"""With ``distribute-cpus-across-numa`` the CPU manager tries sets of NUMA nodes, and sets of remainders of
each: on 8 nodes some milliseconds of work, on 16 hundreds, on 36 it never ends."""


def cpus_ahead(
    policy: CpuPolicy, state: CpuState, pod: Pod, container: str, *, topology: NumaTopology
) -> int:
    """Return the mask of the NUMA nodes of the CPUs that the named container will get; 0 if none or unknown.

    Only right under Topology Manager policy ``none``. CPUs that a finished init container leaves to its pod
    are not in a state that is rebuilt from PodResources (``state.cpu_state_of``), so not counted on.
    """
    found = next((one for one in pod.in_order if one.name == container), None)
    if found is None or _takes_long(policy):
        return 0
    try:
        cpus = policy.allocate(state, pod, found, ANY_NODE).cpus(pod.uid, container)
    except AllocationError:
        return 0
    home = topology.node_of_cpu()
    return mask_of({home[cpu] for cpu in cpus or () if cpu in home})


def _takes_long(policy: CpuPolicy) -> bool:
    return (
        isinstance(policy, StaticCpuPolicy)
        and policy.options.distribute_across_numa
        and len(policy.topology.numa) > MOST_DISTRIBUTED_NODES
    )
