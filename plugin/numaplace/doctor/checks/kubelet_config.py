"""What the kubelet's own configuration means for numaplace, and whether a kubelet would start with it."""

from __future__ import annotations

from collections.abc import Iterator

from numaplace.doctor.checks.cpus import STATIC as _STATIC_CPU
from numaplace.doctor.checks.cpus import cpus_beside_devices
from numaplace.doctor.facts import Facts
from numaplace.doctor.findings import Finding, Level
from numaplace.engine.options import NUMA_ALLOCATION_STRATEGY, PolicyName, parse_options
from numaplace.errors import InputError
from numaplace.kubelet.config.read import KubeletSettings

_NEEDED_GATES = ("KubeletPodResources", "KubeletPodResourcesGetAllocatable")
_STATIC_MEMORY = "Static"


def kubelet_config(facts: Facts) -> Iterator[Finding]:
    settings = facts.kubelet.settings
    if settings is None:
        yield _unseen(facts)
        return
    yield _who_decides(facts, settings)
    if facts.kubelet.changed:
        yield Finding(
            Level.WARNING,
            f"{facts.kubelet.changed} was changed after the kubelet's start: the running kubelet has read "
            "something else",
            "the file is newer than the kubelet's socket, or was replaced under the mount that shows it here",
            "restart the kubelet, and then the pod that the file is mounted in; until then steering "
            "ignores the file",
        )
    yield from _refused(facts, settings)
    yield from _disagrees(facts, settings)
    if len(facts.topology.nodes) > 1:
        yield from cpus_beside_devices(facts.config, settings)


def _unseen(facts: Facts) -> Finding:
    kubelet, page = facts.kubelet, facts.daemon.steering if facts.daemon else None
    if page is not None and page.policy and not kubelet.refused:
        detail = f"as the daemon knows it ({page.source}); from here, {kubelet.problem}"
        return Finding(Level.OK, _decides(page.policy, page.scope), detail)
    if kubelet.refused:
        return Finding(
            Level.PROBLEM,
            "the kubelet's configuration cannot be parsed",
            kubelet.problem,
            "name the kubelet's own configuration (kind: KubeletConfiguration) with --kubelet-config, "
            "or fix it",
        )
    return Finding(
        Level.UNKNOWN,
        "the kubelet's configuration cannot be seen, so who chooses the NUMA nodes is not known",
        kubelet.problem,
        "name the file with --kubelet-config or kubelet.configFile (ps -C kubelet -o args shows its "
        "--config); in a container also mount it, as the Helm chart does for kubelet.configFile, or run "
        "doctor on the node instead",
    )


def _who_decides(facts: Facts, settings: KubeletSettings) -> Finding:
    managers = f"CPU manager {settings.cpu_policy}, memory manager {settings.memory_policy}"
    if settings.reserved_cpus:
        managers += f", reserved CPUs {settings.reserved_cpus}"
    detail = f"{managers}; read from {', '.join(facts.kubelet.sources)}"
    if settings.policy not in tuple(PolicyName):
        return Finding(
            Level.PROBLEM,
            f"{settings.policy!r} is not a Topology Manager policy: the kubelet does not start with it",
            detail,
            f"set topologyManagerPolicy to one of {', '.join(PolicyName)}",
        )
    return Finding(Level.OK, _decides(settings.policy, settings.scope), detail)


def _decides(policy: str, scope: str) -> str:
    if policy == PolicyName.NONE:
        return (
            "Topology Manager policy none: numaplace chooses the NUMA nodes by its strategy; CPUs and "
            "memory are placed by the kubelet and the kernel"
        )
    return (
        f"Topology Manager policy {policy}, scope {scope}: the kubelet chooses the NUMA nodes, numaplace "
        "decides inside them"
    )


def _refused(facts: Facts, settings: KubeletSettings) -> Iterator[Finding]:
    """Yield what a kubelet does not start with; a running kubelet has other settings."""
    runs = facts.kubelet_socket.listening
    gates = settings.gates
    try:
        parse_options(
            settings.options,
            alpha=settings.alpha("TopologyManagerPolicyAlphaOptions"),
            beta=settings.beta("TopologyManagerPolicyBetaOptions"),
        )
    except InputError as error:
        yield _not_started(
            str(error),
            runs=runs,
            advice="remove the option from topologyManagerPolicyOptions, or set its gate",
        )
    if NUMA_ALLOCATION_STRATEGY in settings.options:
        yield Finding(
            Level.WARNING,
            f"the kubelet is configured to follow a strategy itself ({NUMA_ALLOCATION_STRATEGY})",
            "KEP-6007; no released kubelet has the option, and one that does not know it does not start",
            "remove the option, or leave the choice of NUMA nodes to such a kubelet",
        )
    if settings.cpu_policy == _STATIC_CPU and not settings.reserves_cpu:
        yield _not_started(
            "cpuManagerPolicy static needs reserved CPUs",
            runs=runs,
            advice="set reservedSystemCPUs, or cpu in systemReserved or kubeReserved",
        )
    if settings.memory_policy == _STATIC_MEMORY and not settings.reserves_memory:
        yield _not_started(
            "memoryManagerPolicy Static needs reservedMemory",
            runs=runs,
            advice="set reservedMemory so that its sum equals systemReserved + kubeReserved + evictionHard",
        )
    off = [gate for gate in _NEEDED_GATES if gates.get(gate) is False]
    if off:
        yield Finding(
            Level.PROBLEM,
            f"the kubelet's PodResources API is switched off: {', '.join(off)}",
            "featureGates of the kubelet's configuration",
            "remove these gates, which are on by default, and restart the kubelet",
        )


def _not_started(why: str, *, runs: bool, advice: str) -> Finding:
    if runs:
        return Finding(
            Level.WARNING,
            f"this is not what the running kubelet has, or it will not start again: {why}",
            "the kubelet listens, and would not with this configuration",
            f"name the file that it runs with (--kubelet-config); if this is it: {advice}",
        )
    return Finding(
        Level.PROBLEM,
        f"the kubelet does not start with this: {why}",
        "and nothing listens on its socket",
        advice,
    )


def _disagrees(facts: Facts, settings: KubeletSettings) -> Iterator[Finding]:
    """Yield contradictions with PodResources, which shows CPUs and memory under the static policies only."""
    capacity = facts.pod_resources.capacity
    if capacity is None:
        return
    pairs = (
        ("cpuManagerPolicy", settings.cpu_policy, settings.cpu_policy == _STATIC_CPU, bool(capacity.cpus)),
        (
            "memoryManagerPolicy",
            settings.memory_policy,
            settings.memory_policy == _STATIC_MEMORY,
            bool(capacity.memory),
        ),
    )
    for key, value, static, shown in pairs:
        if static != shown:
            yield Finding(
                Level.WARNING,
                f"the kubelet does not run with this {key}: {value}",
                f"PodResources shows {'some' if shown else 'none'} of it, as under "
                f"{'a static' if shown else 'no static'} policy",
                "restart the kubelet if its configuration was changed; otherwise name the file that it "
                "runs with (--kubelet-config)",
            )
