"""What is known about a node's kubelet, and the managers that steering builds from its settings.

Steering predicts what the kubelet will do. What is not known for certain is left out here, with the reason:
then nothing is withheld.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from numaplace.devices.host import parse_cpulist
from numaplace.engine.options import PolicyName, PolicyOptions, parse_options
from numaplace.engine.policy import policy_for
from numaplace.errors import InputError
from numaplace.kubelet.config.read import KubeletSettings
from numaplace.managers.admission import Scope
from numaplace.managers.cpu.options import CpuPolicyOptions, check_cpu_options, parse_cpu_options
from numaplace.managers.cpu.policy import CPU_POLICIES, CpuPolicy, NoneCpuPolicy
from numaplace.managers.cpu.topology import CpuTopology
from numaplace.managers.memory.policies import MEMORY_POLICIES, MemoryPolicy
from numaplace.model.names import ResourceName
from numaplace.model.podresources import Allocatable
from numaplace.model.ranges import ranges
from numaplace.model.topology import NumaTopology
from numaplace.prediction.model import KubeletModel, cpu_policy_from, memory_policy_from

NOT_PREDICTED_GATES = (
    "PodLevelResourceManagers",
    "InPlacePodVerticalScalingExclusiveCPUs",
    "InPlacePodVerticalScalingExclusiveMemory",
)
"""Feature gates, off by default, under which the kubelet's managers differ from our reimplementation."""

MOST_NUMA_NODES = 10
"""The managers go through all sets of NUMA nodes: with each node the work doubles, and it is done while the
kubelet waits. Kubelets align on 8 by default (``max-allowable-numa-nodes``)."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class KnownKubelet:
    """The kubelet's settings and where they are from; ``None`` with the ``problem``, a clause.

    ``passing``: the problem may be temporary, such as a server that did not answer.
    """

    settings: KubeletSettings | None = None
    source: str = ""
    problem: str = ""
    passing: bool = False


def steering_node(
    known: KnownKubelet,
    *,
    allocatable: Allocatable,
    topology: NumaTopology,
    cpu_topology: CpuTopology | None,
    steerable: frozenset[ResourceName],
) -> KubeletModel:
    """Return the node for steering; what is not known is ``None`` there, and its ``problem`` says why.

    ``allocatable`` is what GetAllocatableResources says since the kubelet's start.
    """
    settings = known.settings
    if settings is None:
        problem = f"the kubelet's configuration is not known: {known.problem}"
        return KubeletModel(topology, None, steerable=steerable, problem=problem)
    problems: list[str] = []
    policy, options = _attempt(lambda: _policy(settings, topology), problems) or (None, PolicyOptions())
    scope = _attempt(lambda: _named(Scope, "topologyManagerScope", settings.scope), problems)
    return KubeletModel(
        topology,
        policy if scope else None,
        scope or Scope.CONTAINER,
        options,
        _attempt(lambda: _cpu(settings, allocatable, topology, cpu_topology), problems),
        _attempt(lambda: _memory(settings, allocatable, topology), problems),
        steerable,
        problem=problems[0] if problems else "",
    )


def _attempt(make: Callable[[], _T], problems: list[str]) -> _T | None:
    try:
        return make()
    except InputError as error:
        problems.append(str(error))
        return None


def _named(kind: Callable[[str], _T], key: str, name: str) -> _T:
    try:
        return kind(name)
    except ValueError:
        raise InputError(f"{key} {name!r} is not known to numaplace") from None


def _policy(settings: KubeletSettings, topology: NumaTopology) -> tuple[PolicyName, PolicyOptions]:
    policy = _named(PolicyName, "topologyManagerPolicy", settings.policy)
    if policy != PolicyName.NONE:
        _check_number(topology)
    for gate in NOT_PREDICTED_GATES:
        # Alpha gates, and beta gates that are off by default: ``AllAlpha`` and ``AllBeta`` switch them on.
        if settings.alpha(gate) or settings.gates.get(gate, settings.gates.get("AllBeta", False)):
            raise InputError(f"the effect of the feature gate {gate} is not predicted")
    options = parse_options(
        settings.options,
        alpha=settings.alpha("TopologyManagerPolicyAlphaOptions"),
        beta=settings.beta("TopologyManagerPolicyBetaOptions"),
    ).options
    policy_for(policy, topology=topology, options=options)
    return policy, options


def _cpu(
    settings: KubeletSettings,
    allocatable: Allocatable,
    topology: NumaTopology,
    cpu_topology: CpuTopology | None,
) -> CpuPolicy:
    name = settings.cpu_policy
    static = name == "static"
    if name not in CPU_POLICIES:
        raise InputError(f"cpuManagerPolicy {name!r} is not known to numaplace")
    if static != bool(allocatable.cpus):
        raise InputError(_other_policy("cpuManagerPolicy", name, "exclusive CPUs", shown=not static))
    if not static:
        return NoneCpuPolicy()
    if cpu_topology is None:
        raise InputError("the cores and sockets of the CPUs cannot be read in sysfs")
    options = _cpu_options(settings, cpu_topology)
    _check_cpus(settings, allocatable, topology, cpu_topology)
    policy = cpu_policy_from(allocatable, cpu_topology, options=options, static=True)
    if policy is None:
        raise InputError("the CPUs that the kubelet reserves cannot be determined")
    return policy


def _cpu_options(settings: KubeletSettings, cpu_topology: CpuTopology) -> CpuPolicyOptions:
    options = parse_cpu_options(
        settings.cpu_options,
        alpha=settings.alpha("CPUManagerPolicyAlphaOptions"),
        beta=settings.beta("CPUManagerPolicyBetaOptions"),
    )
    check_cpu_options(options, cpu_topology, topology_manager_policy=settings.policy)
    return options


def _check_cpus(
    settings: KubeletSettings, allocatable: Allocatable, topology: NumaTopology, cpu_topology: CpuTopology
) -> None:
    """Refuse CPUs that do not match the running kubelet: it has read another configuration."""
    if not allocatable.cpus <= cpu_topology.cpus:
        unknown = ranges(allocatable.cpus - cpu_topology.cpus)
        raise InputError(f"the kubelet reports CPUs that are not online: {unknown}")
    if not set(cpu_topology.numa) <= set(topology.nodes):
        raise InputError("CPUs are on NUMA nodes that are not online")
    named = parse_cpulist(settings.reserved_cpus)
    reserved = cpu_topology.cpus - allocatable.cpus
    if named and named != reserved:
        raise InputError(
            f"reservedSystemCPUs names {ranges(named)}, but the running kubelet reserves {ranges(reserved)}"
        )


def _memory(settings: KubeletSettings, allocatable: Allocatable, topology: NumaTopology) -> MemoryPolicy:
    name = settings.memory_policy
    if name not in MEMORY_POLICIES:
        raise InputError(f"memoryManagerPolicy {name!r} is not known to numaplace")
    static = name == "Static"
    if static != bool(allocatable.memory):
        raise InputError(_other_policy("memoryManagerPolicy", name, "memory of NUMA nodes", shown=not static))
    if static:
        _check_number(topology)
    policy = memory_policy_from(allocatable, topology, static=static)
    if policy is None:
        raise InputError("the kubelet reports memory on NUMA nodes that the host does not show")
    return policy


def _check_number(topology: NumaTopology) -> None:
    if len(topology.nodes) > MOST_NUMA_NODES:
        raise InputError(
            f"{len(topology.nodes)} NUMA nodes are too many to predict: the limit is {MOST_NUMA_NODES}"
        )


def _other_policy(key: str, name: str, what: str, *, shown: bool) -> str:
    return f"the running kubelet has another {key} than {name}: it reports {'some' if shown else 'no'} {what}"
