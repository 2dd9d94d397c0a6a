"""The CPU manager's static policy options. Follows kubelet v1.37.2 ``cpumanager/policy_options.go``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from numaplace.engine.options import PolicyName, Stability
from numaplace.errors import OptionError
from numaplace.managers.cpu.topology import CpuTopology

FULL_PCPUS_ONLY = "full-pcpus-only"
DISTRIBUTE_ACROSS_NUMA = "distribute-cpus-across-numa"
ALIGN_BY_SOCKET = "align-by-socket"
DISTRIBUTE_ACROSS_CORES = "distribute-cpus-across-cores"
STRICT_RESERVATION = "strict-cpu-reservation"
PREFER_UNCORE_CACHE = "prefer-align-cpus-by-uncorecache"

# What Go's strconv.ParseBool takes.
_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


@dataclass(frozen=True, slots=True)
class CpuPolicyOptions:
    """How the static policy places exclusive CPUs.

    ``full_pcpus_only``: whole cores or refuse. ``distribute_across_numa``: evenly, where one NUMA node does
    not do. ``align_by_socket``: aligned to a socket is aligned enough. ``distribute_across_cores``: one CPU
    per core first. ``strict_reservation``: reserved CPUs are not shared either. ``prefer_uncore_cache``:
    from as few last-level caches as possible.
    """

    full_pcpus_only: bool = False
    distribute_across_numa: bool = False
    align_by_socket: bool = False
    distribute_across_cores: bool = False
    strict_reservation: bool = False
    prefer_uncore_cache: bool = False


@dataclass(frozen=True, slots=True)
class CpuOption:
    """One known option: its stage, and the field of ``CpuPolicyOptions`` that it sets."""

    stability: Stability
    field: str


CPU_OPTIONS: Mapping[str, CpuOption] = {
    FULL_PCPUS_ONLY: CpuOption(Stability.STABLE, "full_pcpus_only"),
    DISTRIBUTE_ACROSS_NUMA: CpuOption(Stability.BETA, "distribute_across_numa"),
    ALIGN_BY_SOCKET: CpuOption(Stability.ALPHA, "align_by_socket"),
    DISTRIBUTE_ACROSS_CORES: CpuOption(Stability.ALPHA, "distribute_across_cores"),
    STRICT_RESERVATION: CpuOption(Stability.STABLE, "strict_reservation"),
    PREFER_UNCORE_CACHE: CpuOption(Stability.STABLE, "prefer_uncore_cache"),
}

CONFLICTS: tuple[tuple[str, str], ...] = (
    (FULL_PCPUS_ONLY, DISTRIBUTE_ACROSS_CORES),
    (DISTRIBUTE_ACROSS_NUMA, DISTRIBUTE_ACROSS_CORES),
    (PREFER_UNCORE_CACHE, DISTRIBUTE_ACROSS_CORES),
    (PREFER_UNCORE_CACHE, DISTRIBUTE_ACROSS_NUMA),
)
"""Options that the kubelet refuses together."""


def parse_cpu_options(
    options: Mapping[str, str], *, alpha: bool = False, beta: bool = True
) -> CpuPolicyOptions:
    """Parse ``cpuManagerPolicyOptions`` (``NewStaticPolicyOptions``).

    ``alpha`` and ``beta`` are the feature gates ``CPUManagerPolicyAlphaOptions`` and
    ``CPUManagerPolicyBetaOptions``, with the kubelet's defaults; stable options need none. Raises
    ``OptionError`` for the first refused option in the order of the names (unknown, gate off, a value that is
    no boolean), and for two options that exclude each other.
    """
    enabled = {Stability.ALPHA: alpha, Stability.BETA: beta, Stability.STABLE: True}
    parsed = CpuPolicyOptions()
    for name, text in sorted(options.items()):
        option = CPU_OPTIONS.get(name)
        if option is None:
            raise OptionError(
                f"unknown CPU Manager policy option {name!r} (known: {', '.join(sorted(CPU_OPTIONS))})"
            )
        if not enabled[option.stability]:
            gate = f"CPUManagerPolicy{option.stability.value.capitalize()}Options"
            raise OptionError(
                f"CPU Manager policy option {name!r} is {option.stability.value}: "
                f"it needs the feature gate {gate}"
            )
        if text not in _BOOLEANS:
            raise OptionError(
                f"CPU Manager policy option {name!r}: bad value {text!r} (allowed: true or false)"
            )
        parsed = replace(parsed, **{option.field: _BOOLEANS[text]})
    _refuse_conflicts(parsed)
    return parsed


def _refuse_conflicts(options: CpuPolicyOptions) -> None:
    for one, other in CONFLICTS:
        if getattr(options, CPU_OPTIONS[one].field) and getattr(options, CPU_OPTIONS[other].field):
            raise OptionError(
                f"CPU Manager policy options {one!r} and {other!r} exclude each other: switch one of them off"
            )


def check_cpu_options(
    options: CpuPolicyOptions, topology: CpuTopology, *, topology_manager_policy: str
) -> None:
    """Refuse options that the machine or the Topology Manager's policy cannot follow.

    Reimplements ``ValidateStaticPolicyOptions``; raises ``OptionError``.
    """
    if not options.align_by_socket:
        return
    if topology_manager_policy == PolicyName.SINGLE_NUMA_NODE:
        raise OptionError(
            f"CPU Manager policy option {ALIGN_BY_SOCKET!r} cannot be combined with the Topology "
            f"Manager policy {topology_manager_policy!r} (allowed: none, best-effort, restricted)"
        )
    if topology.num_sockets > topology.num_numa:
        raise OptionError(
            f"CPU Manager policy option {ALIGN_BY_SOCKET!r} needs at most as many sockets as NUMA nodes: "
            f"this machine has {topology.num_sockets} sockets and {topology.num_numa} NUMA nodes"
        )
