"""What is known about the node at one moment: the last List, our own grants, our devices, and what follows.

A value: events return the next one, and queries change nothing. Times are the caller's monotonic clock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from numaplace.managers.pod import Pod
from numaplace.model.device import Device
from numaplace.model.names import NO_IDS, DeviceId, Ids, IdsByResource, PodKey, ResourceName
from numaplace.model.observation import Observation
from numaplace.model.topology import NumaTopology
from numaplace.state.admission import Admission, held_nodes
from numaplace.state.attribution import Attribution, Specs, attribute, attributed_nodes, may_still_ask
from numaplace.state.ledger import Grant, Ledger
from numaplace.state.list_change import ListChange
from numaplace.state.pod_logs import PodLogs
from numaplace.state.pod_totals import ContributionCache
from numaplace.state.question import Question, Requester
from numaplace.state.snapshot import Snapshot, build_snapshot


@dataclass(slots=True)
class _Memo:
    """What was worked out before; holds no truth."""

    contributions: ContributionCache = field(default_factory=ContributionCache)
    snapshot: Snapshot | None = None


@dataclass(frozen=True, slots=True)
class NodeState:
    """``devices`` are those of our resources. ``listed`` is the last List, and how it differed from the last.

    With an equal ``version``, a snapshot shows the same, but for the time of its List.
    """

    topology: NumaTopology
    devices: Mapping[ResourceName, Mapping[DeviceId, Device]] = field(default_factory=dict)
    listed: ListChange = field(default_factory=ListChange)
    ledger: Ledger = field(default_factory=Ledger)
    logs: PodLogs = field(default_factory=PodLogs)
    version: int = 0
    _memo: _Memo = field(default_factory=_Memo, compare=False, repr=False)

    # Events.

    def observed(self, observation: Observation) -> NodeState:
        before = self.listed.observation
        change = self.listed.then(observation, cache=self._memo.contributions)
        ledger = self.ledger.after_list(change)
        same = (
            before is not None
            and not change.pods
            and observation.allocatable == before.allocatable
            and ledger.in_flight() == self.ledger.in_flight()
        )
        return replace(
            self,
            listed=change,
            ledger=ledger,
            logs=self.logs.after_list(change),
            version=self.version + (not same),
            _memo=_Memo(self._memo.contributions),
        )

    def with_devices(self, resource: ResourceName, devices: Collection[Device] | None) -> NodeState:
        others = {name: known for name, known in self.devices.items() if name != resource}
        if devices is not None:
            others[resource] = {device.id: device for device in devices}
        return self._changed(devices=others)

    def answered(
        self,
        resource: ResourceName,
        ids: Sequence[DeviceId],
        *,
        requester: Requester | None,
        asked_at_seconds: float,
        now_seconds: float,
    ) -> NodeState:
        logs = self.logs
        if requester is not None:
            admission = logs.admission.decided(
                requester.attribution.admission, self.listed.entries, now_seconds=now_seconds
            )
            logs = replace(logs, admission=admission)
        pod = requester.pod if requester else None
        ledger = self.ledger.answered(resource, ids, asked_at_seconds=asked_at_seconds, pod=pod)
        return replace(self, ledger=ledger, logs=logs)

    def granted(self, resource: ResourceName, ids: Sequence[DeviceId], *, now_seconds: float) -> NodeState:
        logs = replace(self.logs, unlisted=self.logs.unlisted.granted(resource, ids))
        return self._changed(ledger=self.ledger.granted(resource, ids, now_seconds=now_seconds), logs=logs)

    def offered(self, resource: ResourceName, ids: Ids, *, now_seconds: float) -> NodeState:
        ledger = self.ledger.offered(resource, ids, listed=self.listed.devices.held, now_seconds=now_seconds)
        return self if ledger is self.ledger else self._changed(ledger=ledger)

    def written(self, checkpoint: IdsByResource | None, *, since: NodeState) -> NodeState:
        unlisted = self.logs.unlisted.written(checkpoint, ours=self.devices, since=since.logs.unlisted)
        return replace(self, logs=replace(self.logs, unlisted=unlisted))

    def announced(self, specs: Specs, *, now_seconds: float) -> NodeState:
        announced = self.logs.announced.announced(specs, now_seconds=now_seconds)
        return replace(self, logs=replace(self.logs, announced=announced))

    def kubelet_lost(self, *, now_seconds: float) -> NodeState:
        announced = self.logs.announced.forgotten(now_seconds=now_seconds)
        return replace(self, ledger=self.ledger.unanswered(), logs=replace(self.logs, announced=announced))

    def kubelet_restarted(self, *, now_seconds: float) -> NodeState:
        lost = self.kubelet_lost(now_seconds=now_seconds)
        return replace(lost, listed=replace(self.listed, final=True), logs=lost.logs.of_another_kubelet())

    def _changed(self, **changes: Any) -> NodeState:
        return replace(self, **changes, version=self.version + 1, _memo=_Memo(self._memo.contributions))

    # Queries.

    @property
    def observation(self) -> Observation | None:
        return self.listed.observation

    @property
    def complete(self) -> Collection[PodKey]:
        return self.logs.admission.complete

    @property
    def moving(self) -> frozenset[PodKey]:
        return self.logs.stability.moving(self.listed.taken_at_seconds)

    def open_until(self, resources: Collection[ResourceName], *, specs: Specs) -> float | None:
        return self.logs.stability.open_until(
            self.listed, may_ask=lambda pod: may_still_ask(pod, resources, specs=specs)
        )

    def coming(self, specs: Specs) -> tuple[Pod, ...]:
        return self.logs.announced.coming(specs, self.listed, moving=self.moving)

    @property
    def unlisted(self) -> IdsByResource:
        return self.logs.unlisted.held(self.listed.devices.held, in_flight=self.ledger.in_flight())

    def unshown(self, *, but: tuple[ResourceName, Ids] | None = None) -> IdsByResource:
        """Return ``unlisted``, and what was granted before a List that should show it and does not.

        It is an init container's, or of an admission that has failed since and free again; List does not
        show which. ``but`` are the devices of the container under admission; with one there, or after a
        while without any, whatever else was granted should be shown.
        """
        found = dict(self.unlisted)
        for resource, ids in self.ledger.in_flight().items():
            if left := ids.difference(but[1] if but and but[0] == resource else ()):
                found[resource] = found.get(resource, NO_IDS) | left
        return found

    def owners(self, *, but: ResourceName) -> dict[DeviceId, ResourceName]:
        return {key: name for name, devices in self.devices.items() if name != but for key in devices}

    def holders(self, *, but: ResourceName) -> dict[DeviceId, ResourceName]:
        """Return as which other resource a pod holds a device, ours or not."""
        return {
            key: name
            for held in (self.listed.devices.held, self.ledger.in_flight())
            for name, ids in held.items()
            if name != but
            for key in ids
        }

    def snapshot(self, *, offered: IdsByResource | None = None) -> Snapshot | None:
        """Return the allocation state; ``None`` before the first List. ``offered`` ids count as free."""
        seen = self.listed.observation
        if seen is None:
            return None
        if not offered and self._memo.snapshot is not None:
            return self._memo.snapshot
        built = build_snapshot(
            topology=self.topology,
            allocatable=seen.allocatable,
            pods=seen.pods,
            devices=self.devices,
            granted=self.ledger.in_flight(),
            offered=offered or {},
            taken_at_seconds=seen.taken_at_seconds,
            cache=self._memo.contributions,
        )
        if not offered:
            self._memo.snapshot = built
        return built

    def in_use(self, resource: ResourceName) -> Ids | None:
        snapshot = self.snapshot()
        return None if snapshot is None else snapshot.in_use(resource)

    def candidates(self, resource: ResourceName) -> Collection[PodKey]:
        return self._asking(resource, self.ledger.latest).candidates

    def question(
        self, resource: ResourceName, size: int, *, offered: Ids, specs: Specs, fresh: bool
    ) -> Question:
        """Return what is known of a GetPreferredAllocation.

        ``fresh``: the List is newer than the call. An older one may lack the pod under admission.
        """
        snapshot = self.snapshot(offered={resource: offered})
        requester, request = None, None
        if fresh and snapshot is not None:
            latest = self.ledger.latest
            attribution = attribute(self._asking(resource, latest), resource, size, specs=specs)
            held = attributed_nodes(attribution, snapshot=snapshot)
            if held is None:
                held = held_nodes(attribution.admission, resource, snapshot=snapshot, latest=latest)
            requester, request = Requester(attribution, held), attribution.request
        rest = self.logs.companions.companions(resource, size) if request is None else attribution.rest
        return Question(self.topology, snapshot, requester, rest, self.ledger.freed_at(resource))

    def granted_to(self, resource: ResourceName, size: int, *, specs: Specs) -> Attribution:
        """Return who requested what was just granted, by a List that was sent during the call to us."""
        return attribute(self._asking(resource, self.ledger.previous), resource, size, specs=specs)

    def _asking(self, resource: ResourceName, latest: Grant | None) -> Admission:
        return self.logs.admission.admission_for(self.listed.entries, resource, latest=latest)
