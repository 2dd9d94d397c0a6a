"""Whether a set is right for every request, whatever it names, where the policy is ``single-numa-node``.

Of each NUMA node s of which the set hides something, another node x is left of which it hides nothing, with
as many free devices of every resource, as many exclusive CPUs and as much of every memory type. What s can
hold x can hold, also where the amounts are those of a whole pod: sums are compared just the same. x shows
what it has, so the kubelet finds it wherever it would have found s. Under the other policies a request may be
admitted on several nodes, which no comparison of nodes covers.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import ge

from numaplace.engine.options import PolicyName
from numaplace.managers.cpu.static import StaticCpuPolicy
from numaplace.managers.memory.static import StaticMemoryPolicy
from numaplace.prediction.model import KubeletModel
from numaplace.prediction.predict import NOTHING_WITHHELD, Withheld
from numaplace.prediction.preferred_masks import PreferredMasks
from numaplace.prediction.state import SteeringState


def right_for_any(
    node: KubeletModel, state: SteeringState, tables: PreferredMasks, withheld: Withheld
) -> bool:
    if node.policy != PolicyName.SINGLE_NUMA_NODE:
        return False
    nodes = node.topology.nodes
    free = {one: tuple(_free(one, node, state, tables, NOTHING_WITHHELD)) for one in nodes}
    touched = [one for one in nodes if tuple(_free(one, node, state, tables, withheld)) != free[one]]
    left = [one for one in nodes if one not in touched and not state.unsettled >> one & 1]
    return all(any(all(map(ge, free[x], free[s])) for x in left) for s in touched)


def _free(
    at: int, node: KubeletModel, state: SteeringState, tables: PreferredMasks, withheld: Withheld
) -> Iterator[int]:
    for resource, groups in state.devices.items():
        hidden = withheld.get(resource, 0)
        yield sum(group.free for group in groups if group.mask >> at & 1 and not group.mask & hidden)
    if isinstance(node.cpu, StaticCpuPolicy):
        yield tables.free_cpus(1 << at)
    if isinstance(node.memory, StaticMemoryPolicy):
        for type_ in sorted(node.memory.capacity.sums):
            yield tables.free_bytes(type_, 1 << at) if tables.is_open(1 << at) else 0
