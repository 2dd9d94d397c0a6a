"""Whether the Topology Manager can be made to follow the strategy here, and what the daemon does about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from numaplace.config.schema import ClusterMode, SteeringMode
from numaplace.doctor.checks.declared_requests import too_large
from numaplace.doctor.facts import Facts
from numaplace.doctor.findings import Finding, Level
from numaplace.doctor.steering_page import SteeringFact
from numaplace.engine.options import NUMA_ALLOCATION_STRATEGY, PolicyName
from numaplace.kubelet.config.model import KnownKubelet, steering_node
from numaplace.kubelet.config.read import KubeletSettings
from numaplace.model.names import Strategy
from numaplace.model.podresources import Allocatable
from numaplace.model.ranges import ranges
from numaplace.steering.decision import Reason

_DECLARE = (
    "name the requests of this node's pods in steering.requests, memory beside the CPUs included; see "
    "docs/steering.md"
)
_NOT_PREDICTED = (
    "restart the kubelet if its configuration was changed; otherwise nothing needs to be done: "
    "numaplace decides inside the NUMA nodes that the kubelet chooses"
)
LASTING = {
    Reason.POLICY_UNKNOWN: "set kubelet.configFile to the file that the kubelet runs with; in a container "
    "also mount it, and restart the pod after the kubelet if it was changed. Or grant the daemon get on "
    "nodes/proxy",
    Reason.STATE_UNKNOWN: "see the checks pod-resources and kubelet-config; if it persists, the daemon's log "
    "says when it began",
    Reason.NOTHING_STEERABLE: "name in steering.requests what this node's pods request of numaplace's "
    "resources",
    Reason.MIXED_STRATEGIES: "give the resources that pods ask for together one strategy",
    Reason.SEVERAL_SIZES: "name in steering.requests only requests that really occur; or set steering.mode: "
    "always, if spreading or packing matters more than room for large requests",
    Reason.REQUESTS_UNKNOWN: f"{_DECLARE}. Without it the pods seen on the node count: under restricted "
    "and single-numa-node only while the daemon watches the API server",
    Reason.OTHERS_MAY_COME: _DECLARE,
    Reason.TOO_MANY: "name fewer requests in steering.requests",
    Reason.FAILED: "the daemon's log says what went wrong in steering; report what looks like a bug",
}
"""Reasons that persist until something is changed, and what to do. The others are temporary."""


def steering(facts: Facts) -> Iterator[Finding]:
    off = _off(facts)
    if off is not None:
        yield off
        return
    found = judged(facts)
    if found is not None:
        yield found
    if facts.pod_resources.capacity is not None:
        yield from too_large(facts.config.steering.requests, facts.pod_resources.capacity)
    seen = facts.daemon.steering if facts.daemon else None
    if seen is not None:
        said = found is not None and found.level is Level.WARNING
        yield from reported(_but(seen, Reason.POLICY_UNKNOWN) if said else seen)


def _but(seen: SteeringFact, reason: Reason) -> SteeringFact:
    """Return the page without a reason that was reported already."""
    return replace(seen, refusals=tuple(one for one in seen.refusals if one[0] != reason))


def _off(facts: Facts) -> Finding | None:
    strategies = {resource.strategy or facts.config.strategy for resource in facts.config.resources}
    settings = facts.kubelet.settings
    if facts.config.steering.mode is SteeringMode.OFF:
        return Finding(Level.OK, "steering is switched off", "steering.mode is off")
    if strategies <= {Strategy.NONE}:
        return Finding(Level.OK, "steering has nothing to do: no strategy is set")
    if len(facts.topology.nodes) < 2:
        return Finding(Level.OK, "steering has nothing to do: there is one NUMA node")
    if settings is not None and settings.policy == PolicyName.NONE:
        return Finding(
            Level.OK,
            "steering is not needed: under Topology Manager policy none numaplace decides directly",
        )
    if settings is not None and NUMA_ALLOCATION_STRATEGY in settings.options:
        return Finding(
            Level.OK,
            f"steering is not needed: the kubelet follows a strategy itself ({NUMA_ALLOCATION_STRATEGY})",
        )
    return None


def judged(facts: Facts) -> Finding | None:
    """Return whether steering can work by what doctor sees; ``None`` if only the daemon knows."""
    settings = facts.kubelet.settings
    daemon_knows = facts.daemon is not None and facts.daemon.steering is not None
    if settings is None:
        if daemon_knows:
            return None
        return Finding(
            Level.UNKNOWN,
            "whether steering can work is not known: it depends on the kubelet's Topology Manager policy",
            facts.kubelet.problem,
            "see the check kubelet-config",
        )
    if facts.kubelet.changed:
        return None if daemon_knows else _changed(facts.kubelet.changed)
    calls = (facts.pod_resources.list, facts.pod_resources.allocatable)
    if not all(call is not None and call.good for call in calls):
        return Finding(
            Level.WARNING,
            "steering stays off while the allocation state is unknown",
            "PodResources does not answer",
            "see the check pod-resources",
        )
    problem = _problem(facts, settings)
    if problem:
        return Finding(
            Level.WARNING,
            f"steering stays off: what the kubelet will do cannot be predicted: {problem}",
            f"read from {', '.join(facts.kubelet.sources)}",
            _NOT_PREDICTED,
        )
    return _can_work(facts, settings, daemon_knows=daemon_knows)


def _changed(file: str) -> Finding:
    return Finding(
        Level.WARNING,
        f"steering ignores {file}, which was changed after the kubelet's start",
        "see the check kubelet-config",
        "restart the kubelet, and then the pod that the file is mounted in",
    )


def _problem(facts: Facts, settings: KubeletSettings) -> str:
    node = steering_node(
        KnownKubelet(settings),
        allocatable=facts.pod_resources.capacity or Allocatable(),
        topology=facts.topology,
        cpu_topology=facts.cpu_topology,
        steerable=frozenset(facts.scans),
    )
    return node.problem


def _can_work(facts: Facts, settings: KubeletSettings, *, daemon_knows: bool) -> Finding:
    config = facts.config
    if config.kubelet.config_file is None and not daemon_knows:
        without = config.cluster.enabled is ClusterMode.OFF
        return Finding(
            Level.WARNING,
            "steering stays off unless the daemon knows the kubelet's Topology Manager policy",
            f"kubelet.configFile is not set, and {'the API server is not used' if without else _CONFIGZ}",
            f"set kubelet.configFile: {facts.kubelet.sources[0]} (in a container also mount it)",
        )
    declared = len(config.steering.requests)
    several = declared > 1 and config.steering.mode is SteeringMode.AUTO
    return Finding(
        Level.OK,
        f"steering can work under policy {settings.policy}"
        f"{'; with requests of several sizes only where other pods are not affected' if several else ''}",
        f"requests in steering.requests: {declared}",
    )


_CONFIGZ = "the daemon can read the node's configz only with get on nodes/proxy"


def reported(seen: SteeringFact) -> Iterator[Finding]:
    if seen.mode == SteeringMode.OFF:
        yield Finding(
            Level.WARNING,
            "the daemon does not steer: in its configuration steering is off",
            "its page /steering; in the configuration that doctor reads it is on",
            "name the configuration that the daemon runs with (--config), or reload it",
        )
        return
    if seen.open_seconds is not None:
        why = next((text for code, text in seen.refusals if code == Reason.HELD_OFF), "a pod was refused")
        yield Finding(
            Level.WARNING,
            f"steering is held off for {seen.open_seconds:.0f} s more: {why}",
            f"the circuit breaker has opened {_times(seen.trips)} since the daemon's start",
            "kubectl describe that pod; if such pods come again, name all requests in steering.requests or "
            "keep steering.headroom free",
        )
        return
    yield from _now(seen)


def _now(seen: SteeringFact) -> Iterator[Finding]:
    details = [f"requests: {seen.requests_source}"] if seen.requests_source != "none" else []
    if seen.trips:
        details.append(f"the circuit breaker has opened {_times(seen.trips)}")
    detail = "; ".join(details)
    if seen.withheld:
        named = "; ".join(f"{name} on NUMA {ranges(one.nodes)}" for name, one in seen.withheld.items())
        yield Finding(Level.OK, f"the daemon withholds topology of free devices: {named}", detail)
    passing = []
    less = "nothing more is withheld" if seen.withheld else "nothing is withheld"
    for code, text in seen.refusals:
        if code in LASTING:
            why = "; ".join((code, *details))
            yield Finding(Level.WARNING, f"{less}: {text}", why, _advice(code, seen))
        else:
            passing.append(text)
    if passing:
        yield Finding(Level.OK, f"{less} now: {'; '.join(passing)}", detail)


def _advice(code: str, seen: SteeringFact) -> str:
    if code == Reason.POLICY_UNKNOWN and seen.policy:
        return _NOT_PREDICTED
    return LASTING[Reason(code)]


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
