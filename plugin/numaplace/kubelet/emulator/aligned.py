"""A kubelet with a Topology Manager: exclusive CPUs and memory by the reimplemented managers.

Used where the emulated node names a policy; then the affinity of a container is computed from all managers'
hints, and a pod may be refused for it. A container that asks for CPUs or memory belongs to a Guaranteed pod.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from numaplace.engine.hint import Hint
from numaplace.engine.merge import ProvidersHints
from numaplace.engine.options import PolicyName
from numaplace.engine.policy import POLICIES
from numaplace.kubelet.emulator.values import ContainerSpec, EmulatedNode, PodSpec
from numaplace.managers.admission import NO_AFFINITY, Scope
from numaplace.managers.cpu.options import CpuPolicyOptions
from numaplace.managers.cpu.policy import CpuPolicy, NoneCpuPolicy
from numaplace.managers.cpu.state import CpuState
from numaplace.managers.cpu.static import StaticCpuPolicy
from numaplace.managers.cpu.topology import CpuDetail, CpuTopology
from numaplace.managers.device_hints import container_device_hints, pod_device_hints
from numaplace.managers.device_manager import ContainerKind, DeviceManager, PodUid
from numaplace.managers.kubelet import StatefulProvider
from numaplace.managers.memory.hints import capacity_of
from numaplace.managers.memory.machine import machine_memory
from numaplace.managers.memory.policies import MemoryPolicy, NoneMemoryPolicy
from numaplace.managers.memory.static import MemoryState, StaticMemoryPolicy
from numaplace.managers.pod import Container, Pod
from numaplace.model.names import CPU, MEMORY, ResourceName
from numaplace.model.podresources import MemoryBlock

ALIGNING = frozenset(PolicyName) - {PolicyName.NONE}
"""The policies that use hints."""


class AlignedCompute:
    """Has the interface of ``compute.Compute``, and decides on affinities."""

    def __init__(self, node: EmulatedNode) -> None:
        self._node = node
        self._cpu_policy = _cpu_policy(node)
        self._memory_policy = _memory_policy(node)
        self._cpu = StatefulProvider[CpuState](self._cpu_policy)
        self._memory = StatefulProvider[MemoryState](self._memory_policy)
        self._pods: dict[PodUid, Pod] = {}
        self._affinity: Hint = NO_AFFINITY

    @property
    def allocatable_cpus(self) -> frozenset[int]:
        """All CPUs but the reserved ones; none without the static policy."""
        return self._cpu_policy.allocatable

    @property
    def allocatable_memory(self) -> tuple[MemoryBlock, ...]:
        """One block per type and NUMA node; none without the Static policy."""
        return self._memory_policy.allocatable()

    def cpus(self, pod: PodUid, container: str) -> frozenset[int]:
        return self._cpu.state.cpus(pod, container) or frozenset()

    def memory(self, pod: PodUid, container: str) -> tuple[MemoryBlock, ...]:
        return self._memory.state.assigned.get((pod, container), ())

    def release_inactive(self, active: Collection[PodUid]) -> None:
        for uid in self._pods.keys() - set(active):
            for container in self._pods.pop(uid).in_order:
                self._cpu.remove(uid, container.name)
                self._memory.remove(uid, container.name)

    def allocate(
        self, pod: PodUid, spec: ContainerSpec, *, kind: ContainerKind, affinity: int | None
    ) -> None:
        """Give a container its CPUs and memory, with the affinity decided last; ``AllocationError``."""
        known = self._pods[pod]
        container = next(one for one in known.in_order if one.name == spec.name)
        self._cpu.allocate(known, container, self._affinity)
        self._memory.allocate(known, container, self._affinity)

    def decide(
        self, uid: PodUid, spec: PodSpec, container: str, *, devices: DeviceManager
    ) -> tuple[bool, int | None]:
        """Return whether the Topology Manager admits the container, and the mask it decides on."""
        pod = self._pods.setdefault(uid, _pod_of(uid, spec))
        first = pod.in_order[0].name == container
        policy = POLICIES[self._node.topology_policy or ""]
        if self._node.scope is Scope.POD and not first:
            return True, self._affinity.mask
        nodes = self._node.topology.nodes
        hints: ProvidersHints
        if self._node.scope is Scope.POD:
            hints = [
                pod_device_hints(devices, pod, numa_nodes=nodes),
                self._cpu.pod_hints(pod),
                self._memory.pod_hints(pod),
            ]
        else:
            one = next(known for known in pod.in_order if known.name == container)
            hints = [
                container_device_hints(devices, pod, one, numa_nodes=nodes),
                self._cpu.container_hints(pod, one),
                self._memory.container_hints(pod, one),
            ]
        result = policy.merge(hints, self._node.topology, self._node.options)
        self._affinity = result.hint
        return result.admit, result.hint.mask


def _cpu_policy(node: EmulatedNode) -> CpuPolicy:
    if not node.static_cpus:
        return NoneCpuPolicy()
    details = {
        cpu: CpuDetail(numa=numa, socket=numa, core=cpu, uncore_cache=numa)
        for numa, cpus in node.topology.cpus.items()
        for cpu in cpus
    }
    return StaticCpuPolicy.reserving(
        CpuTopology.of(details),
        CpuPolicyOptions(),
        count=len(node.reserved_cpus),
        reserved_cpus=node.reserved_cpus,
    )


def _memory_policy(node: EmulatedNode) -> MemoryPolicy:
    amounts = {MEMORY: node.memory_bytes, **node.hugepages_bytes}
    if not node.static_memory:
        return NoneMemoryPolicy(machine_memory({one: {} for one in node.topology.nodes}, {}))
    sizes: Mapping[int, Mapping[ResourceName, int]] = {
        one: {type_: by_node[one] for type_, by_node in amounts.items() if by_node.get(one)}
        for one in node.topology.nodes
    }
    machine = machine_memory(sizes, {})
    return StaticMemoryPolicy(machine=machine, capacity=capacity_of(machine))


def _pod_of(uid: PodUid, spec: PodSpec) -> Pod:
    every = [one for one, _ in spec.in_admission_order]
    placed = any(one.cpus or one.memory_bytes or one.hugepages_bytes for one in every)
    made = [_container(one, kind, placed=placed) for one, kind in spec.in_admission_order]
    return Pod(
        uid,
        spec.namespace,
        spec.name,
        containers=tuple(one for one in made if one.kind is ContainerKind.APP),
        init_containers=tuple(one for one in made if one.kind is not ContainerKind.APP),
    )


def _container(spec: ContainerSpec, kind: ContainerKind, *, placed: bool) -> Container:
    amounts: dict[ResourceName, int] = {**spec.devices, **spec.hugepages_bytes}
    if placed:
        amounts |= {CPU: 1000 * spec.cpus or 1, MEMORY: spec.memory_bytes or 1}
    return Container(spec.name, amounts, amounts, kind)
