"""Whether numaplace can read the allocation state: the kubelet's PodResources API."""

from __future__ import annotations

from collections.abc import Iterator

from numaplace.doctor.checks.registration import denied
from numaplace.doctor.facts import CallFact, Facts, PathKind
from numaplace.doctor.findings import Finding, Level
from numaplace.kubelet.podresources.poller import LIVE_SHARE

_ANSWERS = {
    "RESOURCE_EXHAUSTED": (
        Level.WARNING,
        "the kubelet's limit of 100 PodResources calls per second is used up by some client of this node",
        "find the client that calls too often (topology exporters, monitoring agents, CNI plugins), "
        "and run doctor again; numaplace itself backs off",
    ),
    "UNIMPLEMENTED": (
        Level.PROBLEM,
        "this kubelet does not have the call",
        "use kubelet 1.23 or newer, and do not switch its KubeletPodResources feature gates off",
    ),
    "DEADLINE_EXCEEDED": (
        Level.PROBLEM,
        "the kubelet accepts the connection and does not answer",
        "check the kubelet's log and load; until it answers, decisions use the last known state, or none",
    ),
}
_OTHER = (
    Level.PROBLEM,
    "the call failed",
    "see the kubelet's log: journalctl -u kubelet",
)


def pod_resources(facts: Facts) -> Iterator[Finding]:
    seen = facts.pod_resources
    socket = seen.socket
    if socket.denied:
        yield denied(facts, f"{socket.path} cannot be connected to")
        return
    if seen.list is None or seen.allocatable is None:
        yield _no_socket(facts)
        return
    for method, call in (("List", seen.list), ("GetAllocatableResources", seen.allocatable)):
        if not call.good:
            yield _failed(method, call)
    if seen.list.good:
        yield _speed(facts, seen.list)
    if seen.get is not None:
        yield _get(seen.get, got=seen.got)


def _no_socket(facts: Facts) -> Finding:
    socket = facts.pod_resources.socket
    kinds = {
        PathKind.MISSING: f"{socket.path} does not exist",
        PathKind.DIRECTORY: f"{socket.path} is a folder: a mount of the socket file before the kubelet's "
        "start leaves one",
    }
    return Finding(
        Level.PROBLEM,
        "the PodResources API cannot be reached: placement would not know what is in use",
        kinds.get(socket.kind, f"connecting to {socket.path}: {socket.error or 'it is not a socket'}"),
        "start the kubelet; in a container mount the folder /var/lib/kubelet/pod-resources (not the "
        "socket file, which goes stale), or set kubelet.podResourcesSocket",
    )


def _failed(method: str, call: CallFact) -> Finding:
    level, summary, advice = _ANSWERS.get(call.code, _OTHER)
    return Finding(level, f"PodResources {method}: {summary}", f"{call.code}: {call.text}", advice)


def _speed(facts: Facts, call: CallFact) -> Finding:
    share_seconds = facts.config.deadline_seconds * LIVE_SHARE
    pods = facts.pod_resources.pods or ()
    seen = f"{len(pods)} pods in {call.seconds * 1000:.1f} ms at {facts.pod_resources.socket.path}"
    if call.seconds > share_seconds:
        return Finding(
            Level.WARNING,
            "List takes longer than a decision can wait for it: decisions rest on the last poll",
            f"{seen}; half of the deadline is {share_seconds * 1000:.0f} ms",
            "raise deadline to more than twice that time, or find out what keeps the kubelet busy",
        )
    return Finding(Level.OK, "PodResources answers", seen)


def _get(call: CallFact, *, got: bool) -> Finding:
    if call.good and got:
        return Finding(Level.OK, "Get is served")
    return Finding(
        Level.OK,
        "Get is not served (the default before kubelet 1.34): numaplace uses List, so nothing is lost",
        "the kubelet does not return a pod that it lists" if call.good else f"{call.code}: {call.text}",
    )
