"""Whether steering can work here: would the kubelet's Topology Manager follow the strategy."""

from __future__ import annotations

from collections.abc import Iterator

from numaplace.config.checks import without_effect
from numaplace.config.schema import Config, SteeringConfig, SteeringMode
from numaplace.doctor.facts import Facts
from numaplace.doctor.findings import Finding, Level
from numaplace.engine.options import NUMA_ALLOCATION_STRATEGY, PolicyName
from numaplace.kubelet.settings import KubeletSettings
from numaplace.model.names import Strategy


def steers_in_this_version() -> bool:
    """Return whether the daemon heeds the ``steering`` keys: the configuration knows which have no effect."""
    asked = Config(steering=SteeringConfig(backoff_seconds=1.0))
    return "steering.backoff" not in without_effect(asked)


def steering(facts: Facts) -> Iterator[Finding]:
    """Yield one finding."""
    yield judged(facts, served=steers_in_this_version())


def judged(facts: Facts, *, served: bool) -> Finding:
    """Return whether steering can work; ``served``: whether this version steers at all."""
    settings = facts.kubelet.settings
    strategies = {resource.strategy or facts.config.strategy for resource in facts.config.resources}
    if facts.config.steering.mode is SteeringMode.OFF:
        return Finding(Level.OK, "steering is switched off", "steering.mode is off")
    if strategies <= {Strategy.NONE}:
        return Finding(Level.OK, "steering has nothing to do: no strategy is set")
    if len(facts.topology.nodes) < 2:
        return Finding(Level.OK, "steering has nothing to do: there is one NUMA node")
    if settings is None:
        return Finding(
            Level.UNKNOWN,
            "whether steering can work is not known: it depends on the kubelet's Topology Manager policy",
            facts.kubelet.problem,
            "see the check kubelet-config",
        )
    if settings.policy == PolicyName.NONE:
        return Finding(
            Level.OK,
            "steering is not needed: under Topology Manager policy none numaplace decides directly",
        )
    if not served:
        return Finding(
            Level.WARNING,
            f"the strategy does not choose the NUMA nodes under policy {settings.policy}: steering is "
            "not in this version",
            "the kubelet chooses the lowest ids among equally good NUMA nodes; numaplace decides inside them",
            "if device placement matters more than CPUs and memory beside the devices, set "
            "topologyManagerPolicy: none; otherwise nothing is to be done",
        )
    return _served(facts, settings, strategies=strategies)


def _served(facts: Facts, settings: KubeletSettings, *, strategies: set[Strategy]) -> Finding:
    if NUMA_ALLOCATION_STRATEGY in settings.options:
        return Finding(
            Level.OK,
            f"steering is not needed: the kubelet follows a strategy itself ({NUMA_ALLOCATION_STRATEGY})",
        )
    calls = (facts.pod_resources.list, facts.pod_resources.allocatable)
    if not all(call is not None and call.good for call in calls):
        return Finding(
            Level.WARNING,
            "steering stays off while the allocation state is unknown",
            "PodResources does not answer",
            "see the check pod-resources",
        )
    if facts.config.kubelet.config_file is None:
        return Finding(
            Level.WARNING,
            "steering stays off: the daemon does not know the kubelet's Topology Manager policy",
            "kubelet.configFile is not set",
            f"set kubelet.configFile: {facts.kubelet.sources[0]} (in a container also mount it)",
        )
    if Strategy.MOST_ALLOCATED in strategies and len(facts.config.steering.requests) != 1:
        return Finding(
            Level.WARNING,
            "steering can work, and mostly withholds nothing under most-allocated with requests of "
            "several sizes",
            f"policy {settings.policy}; steering.requests names {len(facts.config.steering.requests)} shapes",
            "if all pods ask for the same, name that one shape in steering.requests; otherwise the "
            "kubelet's lowest-id rule packs about as well",
        )
    return Finding(Level.OK, f"steering can work under policy {settings.policy}")
