"""Many pods at a time: handed over in a fixed order, until each runs or is refused; and where they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.equipped import EquippedNode
from harness.pods import Pod
from harness.waiters import until

SETTLE_SECONDS = 240.0


@dataclass(frozen=True, slots=True)
class Landing:
    """What became of a pod: the kubelet's reason if it was refused, else the NUMA nodes of what it holds.

    Devices by the hardware's truth, whatever topology was published; CPUs and memory by PodResources.
    """

    refusal: str = ""
    devices: frozenset[int] = frozenset()
    cpus: frozenset[int] = frozenset()
    memory: frozenset[int] = frozenset()

    @property
    def admitted(self) -> bool:
        return not self.refusal

    @property
    def nodes(self) -> tuple[int, ...]:
        """The NUMA nodes of all that the pod holds, ascending."""
        return tuple(sorted(self.devices | self.cpus | self.memory))

    @property
    def aligned(self) -> bool:
        return len(self.nodes) <= 1


def land(site: EquippedNode, pods: Sequence[Pod], *, limit_seconds: float = SETTLE_SECONDS) -> list[Landing]:
    """Create the pods at once, in this order; return what became of each."""
    for pod in pods:
        site.node.create(pod)
    settle(site, pods, limit_seconds=limit_seconds)
    return landings(site, pods)


def settle(site: EquippedNode, pods: Iterable[Pod], *, limit_seconds: float = SETTLE_SECONDS) -> None:
    """Wait until each of the pods runs or was refused."""
    wanted = {pod.name: set(pod.lasting_containers) for pod in pods}

    def unsettled() -> list[str]:
        running = site.node.all_running()
        left = [name for name, containers in wanted.items() if not containers <= running.get(name, set())]
        if left:
            refused = site.node.all_rejected()
            left = [name for name in left if name not in refused]
        return left

    until(
        lambda: not unsettled(),
        "all pods to run or to be refused",
        limit_seconds=limit_seconds,
        every_seconds=0.3,
        detail=unsettled,
    )


def vanish(site: EquippedNode, pods: Iterable[Pod], *, limit_seconds: float = SETTLE_SECONDS) -> None:
    """Delete the pods and wait until the kubelet has forgotten them."""
    names = {pod.name for pod in pods}
    for name in names:
        site.node.delete(name)
    until(
        lambda: not names & site.node.known(),
        "the kubelet to forget the deleted pods",
        limit_seconds=limit_seconds,
        every_seconds=0.3,
        detail=lambda: sorted(names & site.node.known()),
    )


def landings(site: EquippedNode, pods: Iterable[Pod]) -> list[Landing]:
    """Return what became of each pod."""
    refused = site.node.all_rejected()
    held = site.node.held()
    node_of_cpu = site.node.topology.node_of_cpu()
    node_of = site.hardware.node_of
    found = []
    for pod in pods:
        if pod.name in refused:
            found.append(Landing(refusal=refused[pod.name].reason))
            continue
        boxes = held[pod.name].values()
        found.append(
            Landing(
                devices=frozenset(
                    node_of[one] for box in boxes for ids in box.devices.values() for one in ids
                ),
                cpus=frozenset(node_of_cpu[cpu] for box in boxes for cpu in box.cpus),
                memory=frozenset(node for box in boxes for nodes in box.memory.values() for node in nodes),
            )
        )
    return found


def refused_only(steered: Sequence[Landing], stock: Sequence[Landing]) -> list[int]:
    """Return the positions of the pods that are refused in one run and admitted in the other."""
    pairs = enumerate(zip(steered, stock, strict=True))
    return [number for number, (one, other) in pairs if other.admitted and not one.admitted]


def per_node(found: Iterable[Landing]) -> Mapping[tuple[int, ...], int]:
    """Return how many admitted pods are on each set of NUMA nodes."""
    return Counter(one.nodes for one in found if one.admitted)
