"""Exclusive CPUs under the Topology Manager policy ``none``: beside the devices or not, and in scores.

The numbers are in ``docs/fragmentation.md``, "VF pods".
"""

from __future__ import annotations

from collections.abc import Iterator

from numaplace.config.schema import ClusterMode, Config
from numaplace.doctor.findings import Finding, Level
from numaplace.engine.options import PolicyName
from numaplace.kubelet.config.read import KubeletSettings
from numaplace.model.names import CPU, Strategy

STATIC = "static"


def cpus_beside_devices(config: Config, settings: KubeletSettings) -> Iterator[Finding]:
    """Yield what a static CPU manager without alignment means for this configuration."""
    if settings.policy != PolicyName.NONE or settings.cpu_policy != STATIC:
        return
    yield _apart(config)
    strategies = {resource.strategy or config.strategy for resource in config.resources}
    if Strategy.LEAST_ALLOCATED in strategies:
        yield from _uneven(config)


def _apart(config: Config) -> Finding:
    seen = (
        "cpuManagerPolicy static under topologyManagerPolicy none: the kubelet chooses CPUs without regard "
        "to devices"
    )
    align = (
        "where pods need both together, set topologyManagerPolicy to best-effort, restricted or "
        "single-numa-node; the kubelet then chooses the NUMA nodes"
    )
    if config.follow_cpus and config.cluster.enabled is not ClusterMode.OFF:
        return Finding(
            Level.OK,
            "devices are placed beside the exclusive CPUs that the kubelet will assign (followCPUs), if the "
            "daemon knows its request and the kubelet's configuration",
            f"{seen}; kubelet.configFile is {config.kubelet.config_file or 'not set: configz is used'}",
        )
    missing = "followCPUs is false" if not config.follow_cpus else "cluster.enabled is false"
    return Finding(
        Level.WARNING,
        "exclusive CPUs may be on another NUMA node than the devices",
        f"{seen}; {missing}",
        f"followCPUs with the API server puts devices where the CPUs will be; or, {align}",
    )


def _uneven(config: Config) -> Iterator[Finding]:
    follows = config.follow_cpus and config.cluster.enabled is not ClusterMode.OFF
    counted = config.weights.of(CPU) > 0
    if not (follows or counted):
        return
    weight = f"CPUs count in the scores (weight {config.weights.of(CPU)})"
    causes = ["devices follow the CPUs"] * follows + [weight] * counted
    settings = ["followCPUs: false"] * follows + ["weights: {cpu: 0}"] * counted
    yield Finding(
        Level.WARNING,
        "least-allocated spreads devices less than it could: the kubelet takes exclusive CPUs from the "
        f"lowest NUMA nodes first, and {' and '.join(causes)}",
        "cpuManagerPolicy static under topologyManagerPolicy none",
        f"if an even spread of the devices matters most, set {' and '.join(settings)}; see "
        "docs/strategies.md",
    )
