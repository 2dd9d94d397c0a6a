"""What the daemon has of the API server: the requests of pods while it is there, nothing while it is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from cluster.api import Json
from cluster.testsite import NodeSite, Site
from harness.flows import run_one_by_one
from harness.hardware import AMD, NVIDIA, VF
from harness.pods import Container, Pod, unique
from harness.waiters import until


@pytest.fixture
def static_pods(site: Site) -> Iterator[list[Pod]]:
    """Pods for all GPUs of the first kubelet, for it alone. At the end they are gone again."""
    pods = [Pod.of(unique("static"), {VF: 1, NVIDIA: 1}) for _ in range(site.node.hardware.count(NVIDIA))]
    yield pods
    for pod in pods:
        site.node.delete_static(pod)
    names = {site.node.static_name(pod) for pod in pods}
    until(lambda: not names & site.node.held().keys(), "the static pods to be gone", limit_seconds=60)


def test_request_of_a_pod_is_known(site: Site) -> None:
    containers = (Container("net", {VF: 2}), Container("train", {VF: 1, NVIDIA: 2}))
    pod = Pod(unique("known"), containers)
    run_one_by_one(site.node, [pod], limit_seconds=60)
    asked = {
        (one["container"], one["resource"]): one["request"]
        for one in until(lambda: site.node.decisions(pod.name), "decisions for the pod")
    }
    assert asked == {
        ("net", VF): {VF: 2},
        ("train", VF): {VF: 1, NVIDIA: 2},
        ("train", NVIDIA): {VF: 1, NVIDIA: 2},
    }
    event = until(lambda: site.node.event(pod.name, "NUMAPlaced"), "an Event", detail=site.node.daemon_log)
    print(event["message"])


def test_placement_goes_on_without_the_api_server(site: Site, static_pods: list[Pod]) -> None:
    site.configure("most-allocated")
    node = site.node
    lines, url = len(node.daemon_log()), node.metrics_url()
    names = [node.static_name(pod) for pod in static_pods]
    with site.api_server_away():
        for pod, name in zip(static_pods, names, strict=True):
            node.create_static(pod)
            until(lambda name=name: node.held().get(name), f"{name} to be admitted", limit_seconds=60)
        until(lambda: _failed_watches(node.metrics(url)) > 1, "the daemon to try on", limit_seconds=60)
        placed = node.placement()
    numa = [placed.nodes(name) for name in names]
    assert all(len(nodes) == 1 for nodes in numa)
    half = len(numa) // 2
    assert numa == [numa[0]] * half + [numa[-1]] * half

    _wait_watched(site)
    for name in names:
        until(
            lambda name=name: node.event(name, "NUMAPlaced"),
            f"the Event of {name}",
            limit_seconds=90,
            detail=node.daemon_log,
        )
    told = node.daemon_log()[lines:]
    assert len([one for one in told if one["event"] == "decision"]) >= len(names)
    assert _troubles(told) == ["pods cannot be watched; will retry, decisions use PodResources alone"]
    assert [one["event"] for one in told].count("pods are watched again") == 1
    after = Pod.of(unique("after"), {AMD: 1})
    run_one_by_one(node, [after], limit_seconds=60)
    assert [one["request"] for one in node.decisions(after.name)] == [{AMD: 1}]


def test_daemon_starts_without_the_api_server(site: Site, static_pods: list[Pod]) -> None:
    """The kubelet starts its container again; what the former daemon has registered is taken over."""
    site.configure("most-allocated")
    node = site.node
    container, url = node.daemon_container(), node.metrics_url()
    before, *after = static_pods[: len(static_pods) // 2]
    with site.api_server_away():
        node.create_static(before)
        until(lambda: node.held().get(node.static_name(before)), "the first pod", limit_seconds=60)
        node.kill(container)
        until(lambda: _is_new(node, url), "the next daemon", limit_seconds=60)
        until(node.has_all_devices, "its devices at the kubelet", limit_seconds=30)
        for pod in after:
            node.create_static(pod)
            until(lambda pod=pod: node.held().get(node.static_name(pod)), pod.name, limit_seconds=60)
        placed = node.placement()
    assert len(frozenset.union(*(placed.nodes(node.static_name(pod)) for pod in (before, *after)))) == 1
    until(lambda: node.daemon_container() != container, "the status to have the container", limit_seconds=30)
    _wait_watched(site)


def _is_new(node: NodeSite, url: str) -> bool:
    """Whether the daemon that answers has not been connected to the API server, and serves all resources."""
    try:
        metrics = node.metrics(url)
    except OSError:
        return False
    registered = [number for series, number in metrics.items() if series.startswith("numaplace_registered{")]
    watched = metrics.get('numaplace_cluster_watch_calls_total{call="watch",code="OK"}', 0)
    return not watched and bool(registered) and all(registered)


def _wait_watched(site: Site) -> None:
    # The pause before the next try is up to 90 s when there were outages one after the other.
    for node in site.nodes:
        until(
            lambda node=node: node.metrics(node.metrics_url())["numaplace_cluster_watch_connected"] == 1,
            f"pods to be watched again on {node.name}",
            limit_seconds=120,
            detail=node.daemon_log,
        )


def _troubles(lines: list[Json]) -> list[str]:
    return [one["event"] for one in lines if one["level"] != "info"]


def _failed_watches(metrics: Mapping[str, float]) -> float:
    calls = {series: number for series, number in metrics.items() if "cluster_watch_calls_total" in series}
    return sum(number for series, number in calls.items() if 'code="OK"' not in series)
