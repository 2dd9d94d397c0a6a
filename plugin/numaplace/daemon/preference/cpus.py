"""Where the requesting container's exclusive CPUs will come from, where that can be predicted."""

from __future__ import annotations

from collections.abc import Callable

from numaplace.engine.options import PolicyName
from numaplace.managers.cpu.static import StaticCpuPolicy
from numaplace.prediction.cpus import cpus_ahead
from numaplace.prediction.model import KubeletModel
from numaplace.prediction.state import StateUnknown, cpu_state_of
from numaplace.state.attribution import Attribution
from numaplace.state.snapshot import Snapshot


def where_cpus_will_be(
    kubelet: Callable[[], KubeletModel], attribution: Attribution, snapshot: Snapshot
) -> int:
    """Return the mask of NUMA nodes, 0 if not known: the pod, the kubelet's configuration, its CPUs' state.

    Under another Topology Manager policy than ``none`` the CPUs follow its affinity, and so do the offered
    devices.
    """
    if attribution.pod is None or attribution.container is None:
        return 0
    node = kubelet()
    if node.policy is not PolicyName.NONE or not isinstance(node.cpu, StaticCpuPolicy):
        return 0
    state = cpu_state_of(snapshot, node.cpu)
    if isinstance(state, StateUnknown):
        return 0
    return cpus_ahead(node.cpu, state, attribution.pod, attribution.container, topology=node.topology)
