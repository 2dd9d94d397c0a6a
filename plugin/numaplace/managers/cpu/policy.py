"""The CPU manager's policies by name. Follows kubelet ``cpu_manager.go`` and ``policy_none.go``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from numaplace.engine.hint import Hint
from numaplace.engine.options import PolicyName
from numaplace.errors import InputError, OptionError
from numaplace.managers.cpu.options import check_cpu_options, parse_cpu_options
from numaplace.managers.cpu.state import CpuState
from numaplace.managers.cpu.static import NO_PREFERENCE, CpuHints, StaticCpuPolicy
from numaplace.managers.cpu.topology import CpuTopology
from numaplace.managers.device_manager import PodUid
from numaplace.managers.pod import Container, Pod


class CpuPolicy(Protocol):
    """A policy. Pure: a refused ``allocate`` changes no state."""

    @property
    def allocatable(self) -> frozenset[int]:
        """The CPUs that can be given away exclusively."""

    def initial_state(self) -> CpuState: ...

    def container_hints(self, state: CpuState, pod: Pod, container: Container) -> CpuHints: ...

    def pod_hints(self, state: CpuState, pod: Pod) -> CpuHints: ...

    def allocate(self, state: CpuState, pod: Pod, container: Container, affinity: Hint) -> CpuState:
        """Return the state in which the container has its CPUs; raises ``AllocationError``."""

    def remove(self, state: CpuState, pod: PodUid, container: str) -> CpuState: ...


@dataclass(frozen=True, slots=True)
class NoneCpuPolicy:
    """No exclusive CPUs and no preference."""

    @property
    def allocatable(self) -> frozenset[int]:
        return frozenset()

    def initial_state(self) -> CpuState:
        return CpuState()

    def container_hints(self, state: CpuState, pod: Pod, container: Container) -> CpuHints:
        return NO_PREFERENCE

    def pod_hints(self, state: CpuState, pod: Pod) -> CpuHints:
        return NO_PREFERENCE

    def allocate(self, state: CpuState, pod: Pod, container: Container, affinity: Hint) -> CpuState:
        return state

    def remove(self, state: CpuState, pod: PodUid, container: str) -> CpuState:
        return state


@dataclass(frozen=True, slots=True)
class CpuPolicyConfig:
    """The kubelet's configuration of the CPU manager, as written.

    ``options`` is ``cpuManagerPolicyOptions``; ``alpha`` and ``beta`` are their feature gates.
    ``reserved_millicores`` is the node's reservation of ``cpu``, ``reserved_cpus`` is ``reservedSystemCPUs``.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    reserved_millicores: int = 0
    reserved_cpus: frozenset[int] = frozenset()
    topology_manager_policy: str = PolicyName.NONE
    alpha: bool = False
    beta: bool = True


def _none(topology: CpuTopology, config: CpuPolicyConfig) -> NoneCpuPolicy:
    if config.options:
        raise OptionError(
            f"the CPU Manager policy 'none' takes no options, given: {', '.join(sorted(config.options))}"
        )
    return NoneCpuPolicy()


def _static(topology: CpuTopology, config: CpuPolicyConfig) -> StaticCpuPolicy:
    options = parse_cpu_options(config.options, alpha=config.alpha, beta=config.beta)
    check_cpu_options(options, topology, topology_manager_policy=config.topology_manager_policy)
    return StaticCpuPolicy.of(
        topology,
        options,
        reserved_millicores=config.reserved_millicores,
        reserved_cpus=config.reserved_cpus,
    )


CPU_POLICIES: Mapping[str, Callable[[CpuTopology, CpuPolicyConfig], CpuPolicy]] = {
    "none": _none,
    "static": _static,
}
"""``cpuManagerPolicy`` -> how the policy is made."""


def cpu_policy_for(name: str, topology: CpuTopology, *, config: CpuPolicyConfig) -> CpuPolicy:
    """Return the policy of that name, checked against the machine (``NewManager``).

    Raises ``InputError`` (``OptionError`` for options) with what is allowed.
    """
    make = CPU_POLICIES.get(name)
    if make is None:
        raise InputError(f"unknown CPU Manager policy {name!r} (allowed: {', '.join(CPU_POLICIES)})")
    return make(topology, config)
