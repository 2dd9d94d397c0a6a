"""The pods of this node as the API server last told them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from numaplace.cluster.objects import Change, KnownPod
from numaplace.model.names import PodKey


class PodStore:
    """Known pods by (namespace, name). On the event loop; what was known stays while the server is away."""

    def __init__(self) -> None:
        self._pods: dict[PodKey, KnownPod] = {}

    @property
    def pods(self) -> Mapping[PodKey, KnownPod]:
        """All of them; the mapping changes with the store."""
        return self._pods

    def replace(self, pods: Iterable[KnownPod]) -> None:
        """Take in a whole list."""
        self._pods = {pod.key: pod for pod in pods}

    def apply(self, change: Change) -> None:
        """Take in one event of a watch."""
        pod = change.pod
        if pod is None:
            return
        if not change.deleted:
            self._pods[pod.key] = pod
        elif pod.key in self._pods and self._pods[pod.key].pod.uid == pod.pod.uid:
            # A namesake may have come already: only the pod that went is forgotten.
            del self._pods[pod.key]
