"""What is known when the kubelet asks which devices we prefer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from numaplace.model.names import DeviceId, PodKey, ResourceName
from numaplace.model.topology import NumaTopology
from numaplace.state.admission import Admission
from numaplace.state.attribution import Attribution
from numaplace.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Requester:
    """Who seems to have sent the request, and the mask of the container's NUMA nodes (0: unknown)."""

    attribution: Attribution
    held: int = 0

    @property
    def pod(self) -> PodKey | None:
        pod = self.attribution.admission.pod
        return pod.key if pod else None


NOBODY = Requester(Attribution(Admission()))


@dataclass(frozen=True, slots=True)
class Question:
    """What is known when the kubelet asks. ``requester`` is ``None`` if the List may be too old to show it.

    ``rest`` are the other resources that the container has still to be given, with amounts: a guess where its
    request is not known.
    """

    topology: NumaTopology
    snapshot: Snapshot | None = None
    requester: Requester | None = None
    rest: Mapping[ResourceName, int] = field(default_factory=dict)
    freed_at: Mapping[DeviceId, float] = field(default_factory=dict)
