"""The state of the kubelet's device manager, and its steps for one container.

``DeviceManager`` holds the allocations and runs a container's admission as a generator of calls to the
plugins; the driver makes the calls (over gRPC, or to the placement engine directly).

Reimplements kubelet v1.37.2 ``pkg/kubelet/cm/devicemanager``: ``Allocate``, ``allocateContainerResources``,
``UpdateAllocatedDevices``, ``genericDeviceUpdateCallback``, ``markResourceUnhealthy``, ``readCheckpoint``,
``GetAllocatableDevices`` and ``podDevices``.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NewType

from numaplace.errors import PeerError
from numaplace.managers.devices import (
    NO_DEVICES,
    AllocationRequest,
    PickOrder,
    PreferredCall,
    devices_to_allocate,
    natural_order,
)
from numaplace.model.device import Device
from numaplace.model.names import DeviceId, ResourceName

PodUid = NewType("PodUid", str)
"""A pod's UID: a pod that is created again under its old name is another pod."""

DeviceNodes = Mapping[DeviceId, tuple[int, ...]]
"""Devices and their NUMA nodes as they were published when the devices were allocated."""


class ContainerKind(StrEnum):
    """Whether later containers may reuse a container's devices."""

    INIT = "init"
    SIDECAR = "sidecar"
    APP = "app"


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """One container's device requests, in the order in which the kubelet walks them (a map: at random)."""

    pod: PodUid
    name: str
    resources: tuple[tuple[ResourceName, int], ...]
    kind: ContainerKind = ContainerKind.APP
    affinity: int | None = None


@dataclass(frozen=True, slots=True)
class AllocateCall:
    """The kubelet tells the plugin now which devices the container gets."""

    resource: ResourceName
    ids: tuple[DeviceId, ...]


Call = PreferredCall | AllocateCall
Calls = Generator[Call, Sequence[DeviceId] | None, None]
"""Yields calls. A ``PreferredCall`` is sent its reply, an ``AllocateCall`` anything; a plugin's failure is
thrown in as ``PeerError`` and comes out again."""


class DeviceManager:
    """The device manager's state. Not safe for concurrent admissions: the kubelet admits one at a time."""

    def __init__(self, pick: PickOrder = natural_order) -> None:
        self._pick = pick
        self._devices: dict[ResourceName, dict[DeviceId, Device]] = {}
        self._in_use: dict[ResourceName, set[DeviceId]] = {}
        self._held: dict[PodUid, dict[str, dict[ResourceName, DeviceNodes]]] = {}
        self._reusable: dict[ResourceName, set[DeviceId]] = {}
        self._reusable_of: PodUid | None = None

    def publish(self, resource: ResourceName, devices: Iterable[Device]) -> None:
        """Take a ListAndWatch message: it replaces all devices of the resource."""
        self._devices[resource] = {device.id: device for device in devices}

    def lose(self, resource: ResourceName) -> None:
        """Turn the devices unhealthy, because the last plugin of the resource is gone; the resource stays."""
        if resource in self._devices:
            self.publish(resource, [replace(one, healthy=False) for one in self._devices[resource].values()])

    def forget(self, resource: ResourceName) -> None:
        """Drop a resource whose plugin stayed away for the kubelet's grace period (5 minutes)."""
        self._devices.pop(resource, None)

    def restart(self) -> None:
        """Keep what the checkpoint keeps: allocations and resource names, but no device."""
        self._devices = {resource: {} for resource in self._devices}
        self._reusable, self._reusable_of = {}, None
        self._count_in_use()

    def adopt(self, pod: PodUid, container: str, *, resource: ResourceName, nodes: DeviceNodes) -> None:
        """Take over an allocation that was made before, as from a checkpoint (``readCheckpoint``).

        The pod keeps its devices for as long as it is active.
        """
        self._held.setdefault(pod, {}).setdefault(container, {})[resource] = dict(nodes)
        self._in_use.setdefault(resource, set()).update(nodes)

    def published(self, resource: ResourceName) -> Mapping[DeviceId, Device] | None:
        """Return the resource's devices as last published; None if it never was."""
        return self._devices.get(resource)

    @property
    def resources(self) -> tuple[ResourceName, ...]:
        """The resources that have been published or are in the checkpoint."""
        return tuple(self._devices)

    def free(self, resource: ResourceName) -> frozenset[DeviceId]:
        healthy = {device.id for device in self._devices.get(resource, {}).values() if device.healthy}
        return frozenset(healthy - self._in_use.get(resource, set()))

    def held(self, pod: PodUid, container: str) -> Mapping[ResourceName, DeviceNodes]:
        """Return what a container holds, by resource in the order of allocation."""
        return dict(self._held.get(pod, {}).get(container, {}))

    def knows(self, resource: ResourceName) -> bool:
        """Return whether the resource is the device manager's (``isDevicePluginResource``)."""
        return resource in self._devices or resource in self._in_use

    def in_use(self, resource: ResourceName) -> frozenset[DeviceId]:
        return frozenset(self._in_use.get(resource, ()))

    def reusable(self, pod: PodUid, resource: ResourceName) -> frozenset[DeviceId]:
        """Return the devices that a pod's init containers have left to its later containers."""
        return frozenset(self._reusable.get(resource, ())) if self._reusable_of == pod else NO_DEVICES

    def containers_of(self, pod: PodUid) -> tuple[str, ...]:
        return tuple(self._held.get(pod, ()))

    def release_inactive(self, active: Collection[PodUid]) -> None:
        """Free the devices of pods that are not active any more (``UpdateAllocatedDevices``)."""
        gone = self._held.keys() - set(active)
        for pod in gone:
            del self._held[pod]
        if gone:
            self._count_in_use()

    def allocate(self, request: ContainerRequest, *, active: Collection[PodUid]) -> Calls:
        """Run one container's admission. ``active`` are the pods that keep their devices, this one included.

        A resource that no plugin has registered is skipped, as in the kubelet. Raises
        ``AllocationError``; what earlier resources of the container got stays until the pod is inactive.
        """
        if self._reusable_of != request.pod:
            self._reusable, self._reusable_of = {}, request.pod
        released = False
        for resource, size in request.resources:
            if not self.knows(resource):
                continue
            if not released:
                self.release_inactive(active)
                released = True
            yield from self._allocate_resource(request, resource, size=size)
        self._update_reusable(request)

    def _allocate_resource(self, request: ContainerRequest, resource: ResourceName, *, size: int) -> Calls:
        chosen = yield from self._choose(request, resource, size=size)
        if not chosen:
            return
        try:
            yield AllocateCall(resource=resource, ids=tuple(self._pick(chosen)))
        except PeerError:
            self._count_in_use()
            raise
        # A device that a ListAndWatch message has dropped meanwhile is kept without topology.
        known = self._devices.get(resource, {})
        nodes = {one: known[one].nodes if one in known else () for one in chosen}
        self._held.setdefault(request.pod, {}).setdefault(request.name, {})[resource] = nodes

    def _choose(
        self, request: ContainerRequest, resource: ResourceName, *, size: int
    ) -> Generator[Call, Sequence[DeviceId] | None, frozenset[DeviceId]]:
        """Run ``devices_to_allocate``; all that it has taken so far counts as in use, also if it fails."""
        held = self._held.get(request.pod, {}).get(request.name, {}).get(resource)
        steps = devices_to_allocate(
            AllocationRequest(
                resource=resource,
                size=size,
                devices=self._devices.get(resource),
                in_use=frozenset(self._in_use.get(resource, ())),
                held=None if held is None else held.keys(),
                reusable=frozenset(self._reusable.get(resource, ())),
                affinity=request.affinity,
            ),
            self._pick,
        )
        reply: Sequence[DeviceId] | None = None
        chosen: frozenset[DeviceId] = NO_DEVICES
        try:
            while True:
                call = steps.send(reply)
                self._in_use.setdefault(resource, set()).update(call.must_include)
                reply = yield call
        except StopIteration as end:
            chosen = end.value
        self._in_use.setdefault(resource, set()).update(chosen)
        return chosen

    def _update_reusable(self, request: ContainerRequest) -> None:
        """Init containers leave their devices to later containers; all others keep theirs."""
        for resource, nodes in self.held(request.pod, request.name).items():
            reusable = self._reusable.setdefault(resource, set())
            if request.kind is ContainerKind.INIT:
                reusable.update(nodes)
            else:
                reusable.difference_update(nodes)

    def _count_in_use(self) -> None:
        self._in_use = {}
        for containers in self._held.values():
            for resources in containers.values():
                for resource, nodes in resources.items():
                    self._in_use.setdefault(resource, set()).update(nodes)
