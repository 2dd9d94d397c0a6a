"""The requests of this node's pods: those that the API server has, and those seen in Lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from numaplace.managers.pod import Pod
from numaplace.model.names import PodKey
from numaplace.model.podresources import PodUse
from numaplace.prediction.model import KubeletModel
from numaplace.prediction.pod_request import managed_part, request_of
from numaplace.prediction.request import Request, seen_requests

REMEMBERED_REQUESTS = 50
"""Distinct requests that ``LearnedRequests`` keeps, those seen last: old mixes of workloads should fade."""


@dataclass(frozen=True, slots=True)
class LearnedRequests:
    """The distinct requests of the last pods, newest last. ``with_pods`` gives the next value, or itself.

    A value is for one node: with another ``KubeletModel`` the same pods may have other requests.
    """

    requests: tuple[Request, ...] = ()
    _noted: frozenset[PodKey] = field(default=frozenset(), repr=False)

    def with_pods(
        self,
        pods: Sequence[PodUse],
        *,
        settled: AbstractSet[PodKey],
        specs: Mapping[PodKey, Pod],
        node: KubeletModel,
    ) -> LearnedRequests:
        """Note the pods of ``specs``, and the ``settled`` ones of the List: others show a part only.

        Where a pod's spec is known, it counts; a pod may have it before it is in any List.
        """
        present = specs.keys() | settled
        new = present - self._noted
        if not new:
            return (
                self
                if len(present) == len(self._noted)
                else LearnedRequests(self.requests, frozenset(present))
            )
        without_spec = [pod for pod in pods if pod.key in new and pod.key not in specs]
        found = (
            *seen_requests(sorted(without_spec, key=lambda pod: pod.key)),
            *(request_of(specs[key], node.scope) for key in sorted(new & specs.keys())),
        )
        return LearnedRequests(self._with(found, node), frozenset(present))

    def _with(self, found: Iterable[Request], node: KubeletModel) -> tuple[Request, ...]:
        requests = dict.fromkeys(managed_part(one, node) for one in found)
        requests.pop(Request(()), None)
        kept = [one for one in self.requests if one not in requests]
        return (*kept, *requests)[-REMEMBERED_REQUESTS:]
