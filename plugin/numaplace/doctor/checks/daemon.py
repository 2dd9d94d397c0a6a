"""The running daemon, by what its pages say."""

from __future__ import annotations

from collections.abc import Iterator

from numaplace import __version__
from numaplace.doctor.facts import DaemonFact, Facts
from numaplace.doctor.findings import Finding, Level
from numaplace.kubelet.sockets import socket_prefix

STALE_SECONDS = 60.0
FILES_SHARE = 0.8


def daemon(facts: Facts) -> Iterator[Finding]:
    seen = facts.daemon
    if seen is None:
        yield Finding(
            Level.UNKNOWN,
            "the daemon's health is not known: its pages are switched off",
            "http.address is off",
            "set http.address, for example 127.0.0.1:9477, or read the daemon's log",
        )
    elif not seen.status:
        yield _silent(facts, seen)
    elif not seen.values("numaplace_build_info"):
        yield Finding(
            Level.PROBLEM,
            "something other than numaplace answers at http.address",
            f"{seen.url}/readyz: status {seen.status}; /metrics has no numaplace_build_info",
            "give numaplace another port (http.address), or name the configuration that the daemon runs with",
        )
    else:
        yield _ready(seen)
        yield from _complaints(seen)


def _silent(facts: Facts, seen: DaemonFact) -> Finding:
    serving = [
        resource.name
        for resource in facts.config.resources
        if facts.folder.listeners(socket_prefix(resource.name))
    ]
    if serving:
        return Finding(
            Level.UNKNOWN,
            "the daemon runs, but its pages cannot be reached from here",
            f"it listens for {', '.join(serving)}; {seen.url}: {seen.text}",
            "run doctor in the daemon's pod, or name the configuration that the daemon runs with",
        )
    return Finding(
        Level.WARNING,
        "numaplace does not run on this node",
        f"{seen.url}: {seen.text}; no socket of its resources has a listener in {facts.folder.path}",
        "start it: systemctl start numaplace, or see kubectl -n numaplace get pods -o wide",
    )


def _ready(seen: DaemonFact) -> Finding:
    if seen.status != 200:
        return Finding(
            Level.PROBLEM,
            f"the daemon is not ready: {seen.text}",
            f"{seen.url}/readyz: status {seen.status}",
            "fix what the checks registration and other-plugins report; the daemon's log says why a "
            "registration failed",
        )
    versions = {sample.labels.get("version", "") for sample in seen.values("numaplace_build_info")}
    other = (
        f"; it is version {', '.join(versions)}, doctor {__version__}" if versions != {__version__} else ""
    )
    return Finding(Level.OK, f"the daemon is ready{other}", f"{seen.url}/readyz: {seen.text}")


def _complaints(seen: DaemonFact) -> Iterator[Finding]:
    unregistered = [one.labels["resource"] for one in seen.values("numaplace_registered") if not one.value]
    if unregistered and seen.status == 200:
        yield Finding(
            Level.PROBLEM,
            f"the kubelet does not know {', '.join(unregistered)}",
            "numaplace_registered is 0",
            "the daemon's log says why the registration failed; see the check registration",
        )
    age = max((one.value for one in seen.values("numaplace_snapshot_age_seconds")), default=None)
    if age is None or age > STALE_SECONDS:
        yield Finding(
            Level.WARNING,
            "the daemon does not know the allocation state"
            if age is None
            else f"its state is {age:.0f} s old",
            "numaplace_snapshot_age_seconds",
            "PodResources does not answer the daemon: see the check pod-resources, and whether the "
            "folder of the socket is mounted in its pod",
        )
    fallbacks = [one for one in seen.values("numaplace_fallbacks_total") if one.value]
    if fallbacks:
        shown = (f"{one.labels['resource']} {one.labels['reason']}: {one.value:.0f}" for one in fallbacks)
        yield Finding(
            Level.WARNING,
            "some answers were given without a decision or without live state; all were valid",
            f"numaplace_fallbacks_total since the daemon's start: {', '.join(shown)}",
            "docs/metrics.md explains each reason; stale and snapshot: PodResources was slow or "
            "silent, deadline: the node was too busy (raise deadline), error and invalid-answer: "
            "please report",
        )
    throttled = sum(
        one.value
        for one in seen.values("numaplace_podresources_calls_total")
        if one.labels.get("code") == "RESOURCE_EXHAUSTED"
    )
    if throttled:
        yield Finding(
            Level.WARNING,
            "the kubelet has refused PodResources calls of the daemon: its rate limit is shared by the "
            "whole node",
            f"{throttled:.0f} calls with RESOURCE_EXHAUSTED since the daemon's start",
            "find the client that calls too often (topology exporters, monitoring agents, CNI plugins)",
        )
    yield from _files(seen)


def _files(seen: DaemonFact) -> Iterator[Finding]:
    if any(not one.value for one in seen.values("numaplace_inotify_available")):
        yield Finding(
            Level.WARNING,
            "the daemon has no inotify: it notices a restarted kubelet a second later",
            "numaplace_inotify_available is 0",
            "raise fs.inotify.max_user_instances and max_user_watches, then restart the daemon",
        )
    opened = max((one.value for one in seen.values("process_open_fds")), default=0.0)
    allowed = min((one.value for one in seen.values("process_max_fds")), default=0.0)
    if allowed and opened > allowed * FILES_SHARE:
        yield Finding(
            Level.WARNING,
            "the daemon is near its limit of open files",
            f"{opened:.0f} of {allowed:.0f}",
            "raise its limit: LimitNOFILE= in its unit, or the container runtime's ulimits",
        )
