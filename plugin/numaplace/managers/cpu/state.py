"""The CPU manager's state: the shared pool, and each container's exclusive CPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from numaplace.managers.cpu.bits import bits_of, cpus_of
from numaplace.managers.device_manager import PodUid

ContainerKey = tuple[PodUid, str]
"""A container: its pod's UID and its name."""


@dataclass(frozen=True, slots=True)
class CpuState:
    """The CPU manager's state, as a value; CPU sets are kept as bits.

    ``default_bits`` is the shared pool: all CPUs that no container has exclusively (under
    ``strict-cpu-reservation`` without the reserved ones). ``reuse_bits`` are the CPUs that ``reuse_pod``'s
    init containers leave to the pod's later containers; the kubelet keeps them for the pod that it
    placed last, and not across its own restart.
    """

    default_bits: int = 0
    assigned_bits: Mapping[ContainerKey, int] = field(default_factory=dict)
    reuse_pod: PodUid | None = None
    reuse_bits: int = 0

    @classmethod
    def of(cls, default: frozenset[int], assigned: Mapping[ContainerKey, frozenset[int]]) -> CpuState:
        """Return the state with these CPU sets, as the kubelet's checkpoint holds it."""
        return cls(bits_of(default), {key: bits_of(cpus) for key, cpus in assigned.items()})

    @property
    def default(self) -> frozenset[int]:
        """The shared pool."""
        return cpus_of(self.default_bits)

    @property
    def assigned(self) -> Mapping[ContainerKey, frozenset[int]]:
        return {key: cpus_of(bits) for key, bits in self.assigned_bits.items()}

    def cpus(self, uid: PodUid, container: str) -> frozenset[int] | None:
        """Return the container's exclusive CPUs, None if it has none (``GetCPUSet``)."""
        bits = self.assigned_bits.get((uid, container))
        return None if bits is None else cpus_of(bits)

    @property
    def exclusive_bits(self) -> int:
        """All CPUs that some container has exclusively (``getTotalAssignedExclusiveCPUs``)."""
        total = 0
        for bits in self.assigned_bits.values():
            total |= bits
        return total

    def reusable(self, uid: PodUid) -> int:
        return self.reuse_bits if self.reuse_pod == uid else 0

    def with_assigned(self, key: ContainerKey, bits: int) -> CpuState:
        """Return the state in which the container has the CPUs and the shared pool has not."""
        return replace(
            self, default_bits=self.default_bits & ~bits, assigned_bits={**self.assigned_bits, key: bits}
        )

    def with_reuse(self, uid: PodUid, bits: int, *, leave: bool) -> CpuState:
        """Return the state after a container got the CPUs (``updateCPUsToReuse``).

        ``leave``: it is an init container that ends before the next one starts. Other pods' are dropped.
        """
        kept = self.reusable(uid)
        return replace(self, reuse_pod=uid, reuse_bits=kept | bits if leave else kept & ~bits)

    def without(self, key: ContainerKey) -> CpuState:
        """Return the state after a container's end (``RemoveContainer``).

        Its CPUs return to the shared pool, but those that another container of its pod has too. What the
        pod's init containers left stays reusable.
        """
        if key not in self.assigned_bits:
            return self
        remaining = {other: bits for other, bits in self.assigned_bits.items() if other != key}
        released = self.assigned_bits[key]
        for other, bits in remaining.items():
            if other[0] == key[0]:
                released &= ~bits
        return replace(self, default_bits=self.default_bits | released, assigned_bits=remaining)
