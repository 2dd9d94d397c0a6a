"""The pod and container under admission, which GetPreferredAllocation does not name.

The kubelet adds a pod to what List shows, then admits it, then turns to the next pod, one at a time
(``kubelet.go``, HandlePodAdditions); within a pod it admits container by container, init containers first
(topology manager, allocateAlignedResources); within a container it allocates devices, resource after resource
in random order, before exclusive CPUs and memory (``container_manager_linux.go``, AddHintProvider). So
1. when a new pod is in the List, all pods of the List before are done;
2. as long as no new pod is in the List, the pod under admission is still the same;
3. a container that has exclusive CPUs or memory is done, and so are those before any that holds something;
4. a container that already has the resource does not ask for it again.
Init containers are not listed, and several pods may be new at once, most of which request nothing: then more
than one pod can be the one, and the answer is "unknown".
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from numaplace.model.names import PodKey, ResourceName
from numaplace.model.podresources import ContainerUse, PodUse
from numaplace.state.ledger import Grant
from numaplace.state.list_change import Entries, ListChange
from numaplace.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Admission:
    """The pods that may have sent the request, as listed: two where a successor has the same name."""

    able: tuple[PodUse, ...] = ()

    @property
    def candidates(self) -> tuple[PodKey, ...]:
        return tuple(sorted({pod.key for pod in self.able}))

    @property
    def pod(self) -> PodUse | None:
        return self.able[0] if len(self.able) == 1 else None


def held_nodes(
    admission: Admission, resource: ResourceName, *, snapshot: Snapshot, latest: Grant | None = None
) -> int:
    """Return the mask of the NUMA nodes of the devices that the requesting container already holds, else 0.

    The container is the last one that holds anything, if it is not done by the rules above (so it holds no
    exclusive CPUs). When others follow it, the request may be of one of them, and List does not show which:
    then the answer is 0, unless ``latest``, our latest grant, is in that container. Should it be of a later
    container after all, that one follows its own pod's node, which costs spread, not admission.
    """
    pod = admission.pod
    last = -1 if pod is None else last_touched(pod)
    if pod is None or last < 0:
        return 0
    container = pod.containers[last]
    if is_done(container) or has_resource(container, resource):
        return 0
    if last < len(pod.containers) - 1 and (latest is None or not _holds(container, latest)):
        return 0
    return snapshot.container_mask(container)


@dataclass(frozen=True, slots=True)
class AdmissionLog:
    """Which pods are done with admission, learnt from Lists in their order.

    Feed it every List in the order of their requests, those between decisions too: each one narrows down who
    can be new. Start a new log when the kubelet restarts: it admits all pods again. PodResources carries no
    UID: a pod that is replaced under its name between two Lists is noticed if its predecessor held something.
    """

    complete: frozenset[PodKey] = frozenset()
    _decided_at_seconds: float | None = None

    def after_list(self, change: ListChange) -> AdmissionLog:
        """Note a List. Pods that are new in it make all others complete; pods that are gone are forgotten."""
        pods = change.pods
        if not pods:
            return self
        if pods.came:
            return AdmissionLog(frozenset(change.entries).difference(pods.came, pods.emptied))
        return replace(self, complete=self.complete.difference(pods.gone, pods.emptied))

    def admission_for(
        self, entries: Entries, resource: ResourceName, *, latest: Grant | None = None
    ) -> Admission:
        """Return the pods that may have sent the request, given our latest grant (``Ledger``).

        If the grant was made since a decision after which no new pod has appeared, it can only be for the pod
        still under admission: of several candidates, the one that holds it is the one.
        """
        open_ = (pod for key in entries.keys() - self.complete for pod in entries[key])
        able = tuple(pod for pod in open_ if can_ask(pod, resource))
        since = self._decided_at_seconds
        if len(able) > 1 and latest is not None and since is not None and latest.at_seconds >= since:
            holders = tuple(pod for pod in able if any(_holds(one, latest) for one in pod.containers))
            able = holders if len(holders) == 1 else able
        return Admission(able)

    def decided(self, admission: Admission, entries: Entries, *, now_seconds: float) -> AdmissionLog:
        """Note a decision on the List observed last. If the pod is known, all others are complete."""
        complete = self.complete
        if admission.pod is not None:
            complete = frozenset(entries).difference((admission.pod.key,))
        first = now_seconds if self._decided_at_seconds is None else self._decided_at_seconds
        return replace(self, complete=complete, _decided_at_seconds=first)


def can_ask(pod: PodUse, resource: ResourceName) -> bool:
    """Return whether some container of the pod can still ask; a pod listed without containers can."""
    last = last_touched(pod)
    if last < len(pod.containers) - 1 or last < 0:
        return True
    return not is_done(pod.containers[last]) and not has_resource(pod.containers[last], resource)


def last_touched(pod: PodUse) -> int:
    """Return the index of the last container that holds anything, else -1: those before it are done."""
    for index in range(len(pod.containers) - 1, -1, -1):
        container = pod.containers[index]
        if container.devices or is_done(container):
            return index
    return -1


def is_done(container: ContainerUse) -> bool:
    """Return whether the container has exclusive CPUs or memory, which come after its devices."""
    return bool(container.cpus) or any(block.size_bytes > 0 for block in container.memory)


def has_resource(container: ContainerUse, resource: ResourceName) -> bool:
    return any(block.resource == resource for block in container.devices)


def _holds(container: ContainerUse, grant: Grant) -> bool:
    ids = {device for block in container.devices if block.resource == grant.resource for device in block.ids}
    return bool(ids) and grant.ids <= ids
