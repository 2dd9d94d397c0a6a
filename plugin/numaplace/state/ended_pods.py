"""Whether what Lists show under the name of a pod that has ended is still that pod.

PodResources carries no UID. The API server's word that a pod has ended may be old, because its watch is away;
meanwhile another pod of the same name may have come, as a StatefulSet's does, and hold devices. Kubelets
before 1.34 list a pod that has ended for as long as the API server has it, and it is given nothing more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from numaplace.model.names import DeviceId, PodKey, ResourceName
from numaplace.model.podresources import PodUse

_Held = frozenset[tuple[str, object]]


@dataclass(frozen=True, slots=True)
class EndedPodsLog:
    """Methods return the next value. ``followed`` are the ended pods whose names others have now."""

    followed: frozenset[PodKey] = frozenset()
    _shown: Mapping[PodKey, _Held | None] = field(default_factory=dict, repr=False)

    def told(self, terminal: Collection[PodKey], pods: Sequence[PodUse] | None) -> EndedPodsLog:
        """Note which pods have ended by now, and the last List; ``None``: there is none."""
        if not terminal and not self._shown:
            return self
        new = [key for key in terminal if key not in self._shown]
        listed = _held_by(new, pods or ())
        shown = {key: self._shown[key] if key in self._shown else listed[key] for key in terminal}
        if pods is None:
            # All that the first one shows under these names is taken for them.
            shown = {key: held for key, held in shown.items() if key not in listed}
        return EndedPodsLog(self.followed.intersection(terminal), shown)

    def observed(self, pods: Sequence[PodUse]) -> EndedPodsLog:
        """Note a List."""
        if not self._shown:
            return self
        now = _held_by(self._shown, pods)
        followed = {key for key, before in self._shown.items() if _is_another(before, now[key])}
        return EndedPodsLog(self.followed | followed, now)

    def granted(self, resource: ResourceName, ids: Collection[DeviceId]) -> EndedPodsLog:
        """Note that we answered Allocate with these ids: who has ended does not hold them any more."""
        given = {(resource, one) for one in ids}
        if not any(held and not held.isdisjoint(given) for held in self._shown.values()):
            return self
        shown = {key: held and held - given for key, held in self._shown.items()}
        return EndedPodsLog(self.followed, shown)


def _held_by(keys: Collection[PodKey], pods: Sequence[PodUse]) -> dict[PodKey, _Held | None]:
    """Return what the pods hold, by the List; ``None`` where it does not show them."""
    found: dict[PodKey, _Held | None] = dict.fromkeys(keys)
    for pod in pods:
        if pod.key in found:
            found[pod.key] = (found[pod.key] or frozenset()) | _held(pod)
    return found


def _held(pod: PodUse) -> _Held:
    devices = {
        (str(block.resource), one)
        for container in pod.containers
        for block in container.devices
        for one in block.ids
    }
    return frozenset(devices) | {("cpu", cpu) for container in pod.containers for cpu in container.cpus}


def _is_another(before: _Held | None, now: _Held | None) -> bool:
    return now is not None and (before is None or not now <= before)
