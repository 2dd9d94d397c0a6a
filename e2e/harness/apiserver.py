"""An API server for the simulated node's daemon: the package's own fake, told what the kubelet's pods are."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml
from numaplace.cluster.fake import FakeApiServer

from harness.kubelet import NODE_NAME, Kubelet
from harness.pods import Pod


@dataclass(frozen=True, slots=True)
class Cluster:
    """The server, and the environment in which a daemon finds it."""

    api: FakeApiServer
    env: Mapping[str, str]

    @property
    def config(self) -> dict[str, object]:
        """The daemon's settings for it."""
        return {"cluster": {"enabled": True}}

    def announce(self, pod: Pod) -> None:
        """Have a pod of this node before its kubelet does, as a scheduled one is known."""
        manifest = pod.manifest()
        name = f"{pod.name}-{NODE_NAME}"
        metadata = {**manifest["metadata"], "name": name, "uid": f"uid-{name}"}
        spec = {**manifest["spec"], "nodeName": NODE_NAME}
        self.api.put({**manifest, "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}})

    def mirror(self, kubelet: Kubelet) -> None:
        """Have the kubelet's pods as they are now: a kubelet with an API server does so by mirror pods."""
        items = kubelet.pod_objects()
        for item in items:
            self.api.put({**item, "spec": {**item["spec"], "nodeName": NODE_NAME}})
        present = {(item["metadata"]["namespace"], item["metadata"]["name"]) for item in items}
        for key in self.api.pods.keys() - present:
            self.api.delete(*key)


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
