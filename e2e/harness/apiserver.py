"""An API server for the simulated node's daemon: the package's own fake, told what the kubelet's pods are."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml
from numaplace.cluster.fake import FakeApiServer

from harness.kubelet import NODE_NAME, Kubelet


@dataclass(frozen=True, slots=True)
class Cluster:
    """The server, and the environment in which a daemon finds it."""

    api: FakeApiServer
    env: Mapping[str, str]

    @property
    def config(self) -> dict[str, object]:
        """The daemon's settings for it."""
        return {"cluster": {"enabled": True}}

    def mirror(self, kubelet: Kubelet) -> None:
        """Put the kubelet's pods as they are now: a kubelet with an API server does so by mirror pods."""
        for item in kubelet.pod_objects():
            self.api.put({**item, "spec": {**item["spec"], "nodeName": NODE_NAME}})


@contextlib.contextmanager
def fake_cluster(folder: Path) -> Iterator[Cluster]:
    """Serve while the context is open; ``folder`` gets a kubeconfig."""
    server = FakeApiServer()
    with server.serving() as url:
        file = folder / "kubeconfig"
        document = {
            "current-context": "c",
            "clusters": [{"name": "k", "cluster": {"server": url}}],
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
        }
        file.write_text(yaml.safe_dump(document))
        yield Cluster(server, {"KUBECONFIG": str(file), "NODE_NAME": NODE_NAME})
