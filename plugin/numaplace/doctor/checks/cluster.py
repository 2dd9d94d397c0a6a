"""The API server, as the running daemon sees it: doctor itself does not call it.

Placement works without it, so no finding here is a ``problem``.
"""

from __future__ import annotations

from collections.abc import Iterator

from numaplace.config.schema import ClusterMode
from numaplace.doctor.facts import DaemonFact, Facts
from numaplace.doctor.findings import Finding, Level

CONNECTED = "numaplace_cluster_watch_connected"
CALLS = "numaplace_cluster_watch_calls_total"
_LOST = "decisions use PodResources alone: what a pod will request next is not known"
_ADVICE = {
    "401": "the token is not accepted: mount the service account's token (automountServiceAccountToken)",
    "403": "allow list and watch of pods for the daemon's service account (the chart's RBAC)",
    "CREDENTIALS": "mount the service account's token and ca.crt, or correct the kubeconfig",
    "UNAVAILABLE": "let the daemon reach the API server: NetworkPolicy, proxy, KUBERNETES_SERVICE_HOST",
}
_LOOK = "the daemon's log says what the API server answered; cluster.enabled: false does without it"


def cluster(facts: Facts) -> Iterator[Finding]:
    """Yield whether the daemon knows its pods from the API server; nothing if it cannot be reached."""
    mode, seen = facts.config.cluster.enabled, facts.daemon
    if mode is ClusterMode.OFF:
        yield Finding(Level.OK, "the API server is not used", "cluster.enabled is false")
    elif seen is not None and seen.values("numaplace_build_info"):
        yield _used(seen, wanted=mode is ClusterMode.ON)


def _used(seen: DaemonFact, *, wanted: bool) -> Finding:
    connected = seen.values(CONNECTED)
    if not connected:
        detail = f"the daemon has no {CONNECTED}"
        if not wanted:
            return Finding(Level.OK, "the API server is not used", f"cluster.enabled is auto; {detail}")
        return Finding(
            Level.WARNING,
            f"the API server is not used, although cluster.enabled is true; {_LOST}",
            detail,
            "the daemon needs NODE_NAME (the node's name, by fieldRef spec.nodeName) and a service account's "
            "token, or KUBECONFIG; its log says what is missing",
        )
    if all(one.value for one in connected):
        return Finding(Level.OK, "the daemon watches this node's pods at the API server")
    codes = {one.labels.get("code", ""): one.value for one in seen.values(CALLS) if one.value}
    shown = ", ".join(f"{code}: {count:.0f}" for code, count in codes.items())
    known = [advice for code, advice in _ADVICE.items() if code in codes]
    return Finding(
        Level.WARNING,
        f"the daemon does not watch this node's pods now; {_LOST}",
        f"{CONNECTED} is 0; calls since its start by code: {shown or 'none'}",
        "; ".join((*known, _LOOK)),
    )
