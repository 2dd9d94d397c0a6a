"""What the daemon knows of the node: Lists, own grants, devices; and the snapshot that follows from them.

One object on the event loop. The rules are in ``numaplace.state``; this keeps the current values together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from numaplace.kubelet.podresources.poller import Observation
from numaplace.model.device import Device
from numaplace.model.names import DeviceId, PodKey, ResourceName
from numaplace.model.podresources import Allocatable, PodUse
from numaplace.model.topology import NumaTopology
from numaplace.state.admission import UNKNOWN, AdmissionLog, held_nodes
from numaplace.state.attribution import Attribution, Specs, attribute, attributed_nodes, may_still_ask
from numaplace.state.companions import CompanionLog
from numaplace.state.ledger import Grant, Ledger
from numaplace.state.pod_totals import ContributionCache
from numaplace.state.snapshot import Snapshot, build_snapshot
from numaplace.state.stability import StabilityLog
from numaplace.state.unlisted_devices import InUse, UnlistedLog


@dataclass(frozen=True, slots=True)
class Asking:
    """Who seems to ask for devices, and the mask of the NUMA nodes that the container is on (0 = unknown)."""

    attribution: Attribution
    held: int = 0

    @property
    def pod(self) -> PodKey | None:
        """The pod, if only one can be asking."""
        pod = self.attribution.admission.pod
        return pod.key if pod else None


NOBODY = Asking(Attribution(UNKNOWN))


@dataclass(frozen=True, slots=True)
class View:
    """What a snapshot is made of; equal views give equal snapshots. ``pods`` keeps the objects of the ids."""

    ids: frozenset[int]
    allocatable: Allocatable
    in_flight: Mapping[ResourceName, frozenset[DeviceId]]
    revision: int
    pods: Sequence[PodUse] = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class _Answered:
    resource: ResourceName
    ids: frozenset[DeviceId]
    pod: PodKey | None


class NodeState:
    """Keeps the node's state. ``clock`` is monotonic, in seconds."""

    def __init__(self, topology: NumaTopology, *, clock: Callable[[], float]) -> None:
        self.topology = topology
        self._clock = clock
        self._cache = ContributionCache()
        self._ledger = Ledger()
        self._admissions = AdmissionLog()
        self._quiet = StabilityLog()
        self._requests = CompanionLog()
        self._unlisted = UnlistedLog()
        self._devices: dict[ResourceName, Mapping[DeviceId, Device]] = {}
        self._observation: Observation | None = None
        self._snapshot: Snapshot | None = None
        self._answered: _Answered | None = None
        self._latest_before: Grant | None = None
        self.revision = 0
        """Another number means that devices or grants differ; a List alone does not change it."""

    def observed(self, observation: Observation) -> None:
        """Take in a List (the poller's callback)."""
        self._observation = observation
        self._ledger = self._ledger.listed(
            observation.pods, now_seconds=observation.taken_at_seconds, cache=self._cache
        )
        self._unlisted = self._unlisted.observed(self._cache.totals(observation.pods).devices)
        self._admissions = self._admissions.observed(observation.pods)
        self._requests = self._requests.observed(observation.pods, self._admissions.complete)
        self._quiet = self._quiet.observed(
            observation.pods, self._admissions.complete, taken_at_seconds=observation.taken_at_seconds
        )
        self._snapshot = None

    @property
    def observation(self) -> Observation | None:
        """The List observed last."""
        return self._observation

    @property
    def view(self) -> View | None:
        """What the snapshot is made of; ``None`` before the first List."""
        seen = self._observation
        if seen is None:
            return None
        return View(
            frozenset(map(id, seen.pods)),
            seen.allocatable,
            self._ledger.in_flight(),
            self.revision,
            seen.pods,
        )

    @property
    def moving(self) -> frozenset[PodKey]:
        """The pods that may still be under admission, by the List observed last."""
        seen = self._observation
        return frozenset() if seen is None else self._quiet.moving(seen.taken_at_seconds)

    def open_until(self, resources: Collection[ResourceName], *, specs: Specs) -> float | None:
        """Return until when a pod may be under admission that can ask for one of them; ``None``: none can."""
        seen = self._observation
        if seen is None:
            return None
        return self._quiet.open_until(
            seen.taken_at_seconds, may_ask=lambda pod: may_still_ask(pod, resources, specs=specs)
        )

    @property
    def complete(self) -> Collection[PodKey]:
        """The pods that are done with admission, by the List observed last."""
        return self._admissions.complete

    def written(self, checkpoint: InUse | None) -> None:
        """Note what the kubelet has written down; ``None``: that cannot be read."""
        self._unlisted = self._unlisted.written(checkpoint, ours=self._devices)

    @property
    def unlisted(self) -> InUse:
        """The devices that the kubelet may hold for somebody, though List does not show them."""
        return self._unlisted.held(self._ledger.in_flight())

    def unshown(self, *, but: tuple[ResourceName, frozenset[DeviceId]] | None = None) -> InUse:
        """Return ``unlisted``, and what was granted before a List that should show it and does not.

        It is an init container's, or of an admission that has failed since, and free again: which of both
        cannot be told. ``but`` are the devices of the container under admission; with one there, or after a
        while without any, whatever else was granted should be shown.
        """
        found = dict(self.unlisted)
        for resource, ids in self._ledger.in_flight().items():
            if left := ids.difference(but[1] if but and but[0] == resource else ()):
                found[resource] = found.get(resource, frozenset()) | left
        return found

    def kubelet_restarted(self) -> None:
        """Forget who was done with admission: a restarted kubelet admits all pods again."""
        self._unlisted = UnlistedLog()
        self._admissions = AdmissionLog()
        self._quiet = StabilityLog()

    def set_devices(self, resource: ResourceName, devices: Collection[Device] | None) -> None:
        """Replace a resource's devices; ``None`` when the resource is no longer ours."""
        if devices is None:
            self._devices.pop(resource, None)
        else:
            self._devices[resource] = {device.id: device for device in devices}
        self.revision += 1
        self._snapshot = None

    def owners(self, *, but: ResourceName) -> dict[DeviceId, ResourceName]:
        """Return which other resource offers a device."""
        return {key: name for name, devices in self._devices.items() if name != but for key in devices}

    def offered(self, resource: ResourceName, ids: Collection[DeviceId]) -> None:
        """Note that the kubelet offers these ids: they are free, whatever was listed or granted."""
        self._ledger = self._ledger.offered(resource, ids, now_seconds=self._clock())

    def answered(self, resource: ResourceName, ids: Sequence[DeviceId], *, pod: PodKey | None) -> None:
        """Note our preference: the Allocate that follows it, with the same ids, is for the same pod."""
        self._answered = _Answered(resource, frozenset(ids), pod)

    def granted(self, resource: ResourceName, ids: Sequence[DeviceId]) -> None:
        """Note that we answered Allocate with these ids."""
        last, self._answered = self._answered, None
        pod = last.pod if last and (last.resource, last.ids) == (resource, frozenset(ids)) else None
        self._latest_before = self._ledger.latest
        self.revision += 1
        self._ledger = self._ledger.granted(resource, ids, now_seconds=self._clock(), pod=pod)
        self._unlisted = self._unlisted.granted(resource, ids)
        self._snapshot = None

    def snapshot(
        self, *, offered: Mapping[ResourceName, frozenset[DeviceId]] | None = None
    ) -> Snapshot | None:
        """Return the state now; ``None`` before the first List. ``offered`` ids count as free."""
        seen = self._observation
        if seen is None:
            return None
        if self._snapshot is not None and not offered:
            return self._snapshot
        built = build_snapshot(
            topology=self.topology,
            allocatable=seen.allocatable,
            pods=seen.pods,
            devices=self._devices,
            granted=self._ledger.in_flight(),
            offered=offered or {},
            taken_at_seconds=seen.taken_at_seconds,
            cache=self._cache,
        )
        if not offered:
            self._snapshot = built
        return built

    def in_use(self, resource: ResourceName) -> frozenset[DeviceId] | None:
        """Return the ids in use; ``None`` if that is not known yet."""
        snapshot = self.snapshot()
        return None if snapshot is None else snapshot.in_use(resource)

    def freed_at(self, resource: ResourceName) -> Mapping[DeviceId, float]:
        """Return when free devices became free."""
        return self._ledger.freed_at(resource)

    def companions(self, resource: ResourceName, size: int) -> Mapping[ResourceName, int]:
        """Return what containers that hold as much of the resource mostly hold beside it."""
        return self._requests.companions(resource, size)

    def candidates(self, resource: ResourceName) -> Collection[PodKey]:
        """Return the pods that may be asking, by the List observed last."""
        if self._observation is None:
            return ()
        latest = self._ledger.latest
        return self._admissions.asking(self._observation.pods, resource, latest=latest).candidates

    def asking(self, resource: ResourceName, size: int, *, snapshot: Snapshot, specs: Specs) -> Asking:
        """Return who is asking, by the List observed last, and note that a decision is made for it.

        That List has to be newer than the call to us: an older one may lack the pod under admission.
        """
        if self._observation is None:
            return NOBODY
        latest: Grant | None = self._ledger.latest
        admission = self._admissions.asking(self._observation.pods, resource, latest=latest)
        attribution = attribute(admission, resource, size, specs=specs)
        admission = attribution.admission
        self._admissions = self._admissions.decided(admission, now_seconds=self._clock())
        held = attributed_nodes(attribution, snapshot=snapshot)
        if held is None:
            held = held_nodes(admission, resource, snapshot=snapshot, latest=latest)
        return Asking(attribution, held)

    def granted_to(self, resource: ResourceName, size: int, *, specs: Specs) -> Attribution:
        """Return who asked for what was just granted, by a List that was sent during the call to us."""
        if self._observation is None:
            return NOBODY.attribution
        admission = self._admissions.asking(self._observation.pods, resource, latest=self._latest_before)
        return attribute(admission, resource, size, specs=specs)
