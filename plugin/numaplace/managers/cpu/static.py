"""The CPU manager's static policy. Follows kubelet v1.37.2 ``cpumanager/policy_static.go``.

The feature gate ``PodLevelResourceManagers`` (alpha, off by default) is assumed to be off: a pod with
pod-level resources gets no exclusive CPUs and no hints. The gate switched on is not modelled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from numaplace.engine.hint import Hint
from numaplace.errors import AllocationError, InputError
from numaplace.managers.cpu.assignment import take_by_topology_packed
from numaplace.managers.cpu.bits import bits_of, cpu_list, cpus_of
from numaplace.managers.cpu.distribution import take_by_topology_distributed
from numaplace.managers.cpu.hints import cpu_hints
from numaplace.managers.cpu.options import CpuPolicyOptions
from numaplace.managers.cpu.refusal import CpuRefusal
from numaplace.managers.cpu.state import CpuState
from numaplace.managers.cpu.topology import CpuTopology
from numaplace.managers.device_manager import ContainerKind, PodUid
from numaplace.managers.pod import Container, Pod, QosClass
from numaplace.model.mask import nodes_of
from numaplace.model.names import CPU, ResourceName

CpuHints = Mapping[ResourceName, Sequence[Hint] | None]
"""Empty: no preference. An empty sequence: a preference that cannot be met."""

NO_PREFERENCE: CpuHints = {}
UNSATISFIABLE: CpuHints = {CPU: ()}


@dataclass(frozen=True, slots=True)
class StaticCpuPolicy:
    """The policy's configuration; make it with ``StaticCpuPolicy.of``. Sets of CPUs are bits.

    ``reserved_cores_bits`` are the reserved CPUs and all their siblings.
    """

    topology: CpuTopology
    options: CpuPolicyOptions
    reserved_bits: int
    reserved_cores_bits: int

    @classmethod
    def of(
        cls,
        topology: CpuTopology,
        options: CpuPolicyOptions,
        *,
        reserved_millicores: int,
        reserved_cpus: frozenset[int] = frozenset(),
    ) -> StaticCpuPolicy:
        """Return the policy (``NewStaticPolicy``, and what ``NewManager`` demands of the reservation).

        ``reserved_millicores`` is what the node reserves of ``cpu`` (system and kube), rounded up to CPUs.
        They are taken as a container's CPUs would be unless ``reserved_cpus`` (``reservedSystemCPUs``) names
        them; then their number must be the same. Raises ``InputError``.
        """
        count = -(-reserved_millicores // 1000)
        if count < 1:
            raise InputError("the CPU manager's static policy needs a CPU reservation greater than zero")
        return cls.reserving(topology, options, count=count, reserved_cpus=reserved_cpus)

    @classmethod
    def reserving(
        cls,
        topology: CpuTopology,
        options: CpuPolicyOptions,
        *,
        count: int,
        reserved_cpus: frozenset[int] = frozenset(),
    ) -> StaticCpuPolicy:
        """Return the policy with ``count`` reserved CPUs, which may be 0 here. Raises ``InputError``."""
        reserved = bits_of(reserved_cpus)
        if not reserved:
            try:
                reserved = _take(topology, options, topology.all_bits, count)
            except AllocationError as error:
                raise InputError(f"{count} CPUs cannot be reserved: {error}") from error
        if reserved.bit_count() != count:
            raise InputError(
                f"the CPU reservation is {count} CPUs, but {cpu_list(reserved) or 'no CPU'} would be reserved"
            )
        if reserved & ~topology.all_bits:
            unknown = cpu_list(reserved & ~topology.all_bits)
            raise InputError(f"reserved CPUs that this machine does not have: {unknown}")
        return cls(topology, options, reserved, topology.bits_of_cores_of(reserved))

    @property
    def allocatable_bits(self) -> int:
        return self.topology.all_bits & ~self.reserved_bits

    @property
    def allocatable(self) -> frozenset[int]:
        """All CPUs but the reserved ones (``GetAllocatableCPUs``)."""
        return cpus_of(self.allocatable_bits)

    @property
    def reserved(self) -> frozenset[int]:
        return cpus_of(self.reserved_bits)

    def initial_state(self) -> CpuState:
        shared = self.topology.all_bits
        return CpuState(shared & ~self.reserved_bits if self.options.strict_reservation else shared)

    def available_bits(self, state: CpuState) -> int:
        """Return the CPUs of the shared pool that may be given away (``GetAvailableCPUs``)."""
        return state.default_bits & ~self.reserved_bits

    def container_hints(self, state: CpuState, pod: Pod, container: Container) -> CpuHints:
        """Return the container's hints (``GetTopologyHints``)."""
        wanted = exclusive_cpus(pod, container)
        if wanted == 0:
            return NO_PREFERENCE
        held = state.assigned_bits.get((pod.uid, container.name))
        if held is None:
            return self._hints(state, self.available_bits(state), wanted, reusable=state.reusable(pod.uid))
        if held.bit_count() != wanted:
            return UNSATISFIABLE
        return self._hints(state, held, wanted)

    def pod_hints(self, state: CpuState, pod: Pod) -> CpuHints:
        """Return the hints for all the pod's containers together (``GetPodTopologyHints``)."""
        wanted = pod_exclusive_cpus(pod)
        if wanted == 0:
            return NO_PREFERENCE
        held = 0
        for container in pod.in_order:
            bits = state.assigned_bits.get((pod.uid, container.name))
            if bits is None:
                continue
            if bits.bit_count() != exclusive_cpus(pod, container):
                return UNSATISFIABLE
            held |= bits
        if held.bit_count() == wanted:
            return self._hints(state, held, wanted)
        reusable = state.reusable(pod.uid) | held
        return self._hints(state, self.available_bits(state), wanted, reusable=reusable)

    def allocate(self, state: CpuState, pod: Pod, container: Container, affinity: Hint) -> CpuState:
        """Return the state in which the container has the exclusive CPUs that it is to have (``Allocate``).

        ``affinity`` is the Topology Manager's hint. A container that has CPUs keeps them. Raises
        ``AllocationError`` with a reason of ``CpuRefusal``; the given state then still holds.
        """
        wanted = exclusive_cpus(pod, container)
        if wanted == 0:
            return state
        key = (pod.uid, container.name)
        leave = container.kind is ContainerKind.INIT
        held = state.assigned_bits.get(key)
        if held is not None:
            return state.with_reuse(pod.uid, held, leave=leave)
        self.check_smt_alignment(state, wanted)
        bits = self._choose(state, wanted, affinity.mask, reusable=state.reusable(pod.uid))
        return state.with_assigned(key, bits).with_reuse(pod.uid, bits, leave=leave)

    def check_smt_alignment(self, state: CpuState, wanted: int) -> None:
        """Refuse what ``full-pcpus-only`` forbids (``enforceSMTAlignment``): raises ``AllocationError``."""
        if not self.options.full_pcpus_only:
            return
        per_core = self.topology.cpus_per_core
        if wanted % per_core:
            raise AllocationError(
                f"SMT alignment: {wanted} CPUs are not a multiple of the {per_core} CPUs of a core",
                reason=CpuRefusal.SMT_ALIGNMENT,
            )
        # CPUs that the pod's init containers left do not count here, upstream either.
        free = (state.default_bits & ~self.reserved_cores_bits).bit_count()
        if wanted > free:
            raise AllocationError(
                f"SMT alignment: {wanted} CPUs are needed in whole cores of {per_core}, {free} are free in "
                "cores without reserved CPUs",
                reason=CpuRefusal.SMT_ALIGNMENT,
            )

    def remove(self, state: CpuState, pod: PodUid, container: str) -> CpuState:
        """Return the state after the container's end (``RemoveContainer``)."""
        return state.without((pod, container))

    def _hints(self, state: CpuState, available: int, wanted: int, *, reusable: int = 0) -> CpuHints:
        return {
            CPU: cpu_hints(
                self.topology,
                self.options,
                available=available,
                reusable=reusable,
                wanted=wanted,
                allocatable=self.allocatable_bits,
                exclusive=state.exclusive_bits,
            )
        }

    def _choose(self, state: CpuState, wanted: int, mask: int | None, *, reusable: int) -> int:
        """Return the CPUs: from the mask's nodes first, the rest anywhere (``allocateCPUs``)."""
        available = self.available_bits(state) | reusable
        chosen = 0
        if mask is not None:
            aligned = available & self._aligned_bits(mask)
            chosen = _take(self.topology, self.options, aligned, min(wanted, aligned.bit_count()))
        rest = _take(self.topology, self.options, available & ~chosen, wanted - chosen.bit_count())
        return chosen | rest

    def _aligned_bits(self, mask: int) -> int:
        """Return the CPUs that are aligned with the mask (``getAlignedCPUs``)."""
        nodes = nodes_of(mask)
        if self.options.align_by_socket:
            return self.topology.bits_in_sockets_of(nodes)
        return self.topology.bits_in_numa(nodes)


def exclusive_cpus(pod: Pod, container: Container) -> int:
    """Return how many exclusive CPUs the container is to have; 0: it runs in the shared pool.

    Reimplements ``guaranteedCPUs``: whole CPUs of a Guaranteed container; 0 with pod-level resources.
    """
    if pod.pod_level or pod.qos is not QosClass.GUARANTEED:
        return 0
    return container.whole_cpus


def pod_exclusive_cpus(pod: Pod) -> int:
    """Return how many exclusive CPUs the pod needs at once (``podGuaranteedCPUs``).

    Sidecars and app containers together, or the largest init container with the sidecars before it.
    """
    sidecars = init = 0
    for container in pod.init_containers:
        wanted = exclusive_cpus(pod, container)
        if container.kind is ContainerKind.SIDECAR:
            sidecars += wanted
        else:
            init = max(init, sidecars + wanted)
    return max(init, sidecars + sum(exclusive_cpus(pod, container) for container in pod.containers))


def _take(topology: CpuTopology, options: CpuPolicyOptions, available: int, wanted: int) -> int:
    """Take CPUs as the options say (``takeByTopology``)."""
    spread = options.distribute_across_cores
    if not options.distribute_across_numa:
        return take_by_topology_packed(
            topology, available, wanted=wanted, spread=spread, prefer_uncore=options.prefer_uncore_cache
        )
    return take_by_topology_distributed(
        topology,
        available,
        wanted=wanted,
        group=topology.cpus_per_core if options.full_pcpus_only else 1,
        spread=spread,
        align_by_socket=options.align_by_socket,
    )
