"""The managers' policies that the scenario's kubelet section configures, or what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from numaplace.engine.merge import ProvidersHints
from numaplace.engine.options import PolicyName, PolicyOptions, parse_options
from numaplace.engine.policy import PolicyResult, policy_for
from numaplace.errors import InputError, ScenarioError
from numaplace.managers.admission import Merge
from numaplace.managers.cpu.policy import CpuPolicy, CpuPolicyConfig, NoneCpuPolicy, cpu_policy_for
from numaplace.managers.memory.machine import machine_memory
from numaplace.managers.memory.policies import MEMORY_POLICIES, MemoryPolicy
from numaplace.managers.memory.reserved import reserved_memory
from numaplace.model.names import MEMORY, ResourceName
from numaplace.model.topology import NumaTopology
from numaplace.simulate.scenario.records import KubeletSettings, Machine, Scenario
from numaplace.simulate.simulator.enforcement import ENFORCEMENTS, How, kubelet_options
from numaplace.simulate.simulator.machine import (
    cpu_topology,
    numa_topology,
    reserved_memory_bytes,
    reserved_millicores,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Managers:
    """The policies of one node. ``merge`` is None under the Topology Manager's policy ``none``."""

    topology: NumaTopology
    options: PolicyOptions
    merge: Merge | None
    cpu: CpuPolicy
    memory: MemoryPolicy
    how: How


def managers_for(scenario: Scenario) -> Managers:
    """Return the policies. Raises ``ScenarioError`` where a kubelet would not start, with every reason."""
    settings, machine = scenario.kubelet, scenario.machine
    how = ENFORCEMENTS[scenario.placement.enforcement]
    topology = numa_topology(machine)
    problems = _Problems(settings)
    options = problems.attempt("topologyManagerPolicyOptions", lambda: _options(settings), PolicyOptions())
    options = kubelet_options(how, scenario.placement, options)
    merge = problems.attempt("topologyManagerPolicy", lambda: _merge(settings, topology, options), None)
    no_cpus: CpuPolicy = NoneCpuPolicy()
    cpu = problems.attempt("cpuManagerPolicy", lambda: _cpu(settings, machine), no_cpus)
    memory = problems.attempt("memoryManagerPolicy", lambda: _memory(settings, machine), None)
    if problems.found or memory is None:
        raise ScenarioError(tuple(problems.found))
    return Managers(topology, options, merge, cpu, memory, how)


def _check_reserved(reserved: Mapping[int, Mapping[ResourceName, int]], machine: Machine) -> None:
    """Refuse what makes the kubelet's unsigned numbers wrap around: it would see nearly unlimited memory."""
    for node in machine.numa_nodes:
        in_hugepages = sum(size for type_, size in node.sizes.items() if type_ != MEMORY)
        for type_, kept in reserved[node.id].items():
            there = node.sizes.get(type_, 0) - (in_hugepages if type_ == MEMORY else 0)
            if kept > there:
                raise InputError(
                    f"reservedMemory of NUMA node {node.id}: {type_}: the node has {there} bytes"
                )


class _Problems:
    def __init__(self, settings: KubeletSettings) -> None:
        self.found: list[str] = []
        self._places = settings.places

    def attempt(self, key: str, make: Callable[[], T], default: T) -> T:
        try:
            return make()
        except InputError as error:
            place = self._places.get(key, "")
            prefix = f"{place}: kubelet.{key}: " if place else "kubelet: "
            self.found.extend(prefix + line for line in str(error).splitlines())
            return default


def _options(settings: KubeletSettings) -> PolicyOptions:
    gates = settings.gates
    return parse_options(
        settings.topology_options,
        alpha=gates.get("TopologyManagerPolicyAlphaOptions", False),
        beta=gates.get("TopologyManagerPolicyBetaOptions", True),
    ).options


def _merge(settings: KubeletSettings, topology: NumaTopology, options: PolicyOptions) -> Merge | None:
    policy = policy_for(settings.topology_policy.value, topology=topology, options=options)
    if policy.name is PolicyName.NONE:
        return None

    def merge(hints: ProvidersHints) -> PolicyResult:
        return policy.merge(hints, topology, options)

    return merge


def _cpu(settings: KubeletSettings, machine: Machine) -> CpuPolicy:
    if settings.cpu_policy == "none" and not settings.cpu_options:
        return NoneCpuPolicy()
    return cpu_policy_for(
        settings.cpu_policy,
        cpu_topology(machine),
        config=CpuPolicyConfig(
            options=settings.cpu_options,
            reserved_millicores=reserved_millicores(settings),
            reserved_cpus=settings.reserved_cpus,
            topology_manager_policy=settings.topology_policy.value,
            alpha=settings.gates.get("CPUManagerPolicyAlphaOptions", False),
            beta=settings.gates.get("CPUManagerPolicyBetaOptions", True),
        ),
    )


def _memory(settings: KubeletSettings, machine: Machine) -> MemoryPolicy | None:
    sizes = {node.id: node.sizes for node in machine.numa_nodes}
    reserved: dict[int, dict[ResourceName, int]] = {}
    if settings.memory_policy != "None":
        reservation = reserved_memory_bytes(settings, machine)
        reserved = reserved_memory(settings.reserved_memory, nodes=machine.ids, reservation=reservation)
        _check_reserved(reserved, machine)
    return MEMORY_POLICIES[settings.memory_policy](machine_memory(sizes, reserved))
