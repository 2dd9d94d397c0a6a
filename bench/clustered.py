"""The idle daemon with an API server: memory while it watches the node's pods."""

from __future__ import annotations

import time
from pathlib import Path

import yaml
from numaplace.cluster.fake import FakeApiServer

from bench.machine import Machine
from bench.parts import Child, Daemon, PodResources, channel, rss_mib
from bench.size import LISTED, RESOURCES, SETTLE_SECONDS, host_of
from bench.stats import Row

MAX_RSS_MIB = 75.0
NODE_NAME = "worker-1"
WATCH_SECONDS = 20.0
# Fields of a pod that are not read: volumes, conditions, managed fields.
_OTHER_BYTES = 7 * 1024


def measure_clustered(folder: Path) -> list[Row]:
    """Return the row of a daemon that finds its API server by a kubeconfig, which costs the most memory."""
    folder.mkdir()
    config = host_of(folder)
    api = FakeApiServer()
    kubelet = Child("kubelet", folder, *RESOURCES)
    try:
        kubelet.fact()
        with api.serving(), channel(folder / "list.sock") as connection:
            machine = Machine(LISTED)
            pod_resources = PodResources(connection)
            pod_resources.set_allocatable(machine.allocatable())
            pod_resources.show(machine.listing())
            for number in range(LISTED.pods):
                api.put(_pod(number))
            environment = {"NODE_NAME": NODE_NAME, "KUBECONFIG": str(_kubeconfig(folder, api.url))}
            daemon = Daemon(folder, config, environment=environment)
            try:
                kubelet.fact(hint=daemon.log)
                _wait_for_watch(api, daemon.log)
                time.sleep(SETTLE_SECONDS)
                rss = rss_mib(daemon.pid)
            finally:
                daemon.stop()
    finally:
        kubelet.stop()
    return [
        Row("resident memory, pods watched (kubeconfig)", "MiB", rss, 0, max_value=MAX_RSS_MIB),
    ]


def _wait_for_watch(api: FakeApiServer, log: Path) -> None:
    deadline = time.monotonic() + WATCH_SECONDS
    while not any(query.get("watch") for _, _, query in list(api.requests)):
        if time.monotonic() > deadline:
            raise RuntimeError(f"no watch of pods\n{log.read_text()[-2000:]}")
        time.sleep(0.05)


def _kubeconfig(folder: Path, url: str) -> Path:
    document = {
        "clusters": [{"name": "k", "cluster": {"server": url}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "current-context": "c",
    }
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(document))
    return file


def _pod(number: int) -> dict[str, object]:
    """Return a pod as an API server has it, of about 8 KiB."""
    amounts = {"cpu": "4", "memory": "8Gi", RESOURCES[number % len(RESOURCES)]: "2"}
    container = {"name": "main", "image": "x", "resources": {"limits": amounts, "requests": amounts}}
    name = f"pod-{number}"
    return {
        "metadata": {
            "namespace": "bench",
            "name": name,
            "uid": f"uid-{name}",
            "annotations": {"other": "x" * _OTHER_BYTES},
        },
        "spec": {"nodeName": NODE_NAME, "containers": [container]},
        "status": {"phase": "Running"},
    }
