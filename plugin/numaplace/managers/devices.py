"""Which devices of one resource a container gets: the kubelet's steps for one resource of one container.

The steps are a generator, so that a synchronous simulator and an asynchronous emulator drive the same code:
it yields a ``PreferredCall`` where the kubelet asks the plugin, is sent the plugin's reply, and returns the
devices. Hints are elsewhere: here the mask is given.

Reimplements kubelet v1.37.2 ``pkg/kubelet/cm/devicemanager/manager.go``: ``devicesToAllocate``,
``filterByAffinity``, ``deviceHasTopologyAlignment``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum

from numaplace.errors import AllocationError
from numaplace.model.device import Device, natural_key
from numaplace.model.names import DeviceId, ResourceName

PickOrder = Callable[[Iterable[DeviceId]], Sequence[DeviceId]]
"""The order in which a set of devices is walked. The kubelet walks its sets in random order."""

NO_DEVICES: frozenset[DeviceId] = frozenset()


def natural_order(ids: Iterable[DeviceId]) -> Sequence[DeviceId]:
    """Return the ids in natural order: the repeatable ``PickOrder``."""
    return sorted(ids, key=natural_key)


class Refusal(StrEnum):
    """Why no devices are allocated (``AllocationError.reason``)."""

    UNREGISTERED = "unregistered"
    NO_HEALTHY_DEVICES = "no-healthy-devices"
    HELD_DEVICE_UNHEALTHY = "held-device-unhealthy"
    REQUEST_CHANGED = "request-changed"
    TOO_FEW_DEVICES = "too-few-devices"


@dataclass(frozen=True, slots=True)
class AllocationRequest:
    """One resource of one container, and what the device manager knows about the resource.

    ``devices`` is the last ListAndWatch message, None if none ever came. ``in_use`` are the devices that
    some container holds. ``held`` are those that this container already has, None if it has no entry.
    ``reusable`` are those of the pod's earlier init containers. ``affinity`` is the Topology Manager's mask
    for the container, None without a hint. ``already_running`` says that the kubelet has just started and
    found the container running.
    """

    resource: ResourceName
    size: int
    devices: Mapping[DeviceId, Device] | None
    in_use: AbstractSet[DeviceId] = NO_DEVICES
    held: AbstractSet[DeviceId] | None = None
    reusable: AbstractSet[DeviceId] = NO_DEVICES
    affinity: int | None = None
    already_running: bool = False


@dataclass(frozen=True, slots=True)
class PreferredCall:
    """The kubelet asks the plugin now. The ids are in the order in which the kubelet would send them.

    ``must_include`` are taken already; ``size`` counts them.
    """

    resource: ResourceName
    available: tuple[DeviceId, ...]
    must_include: tuple[DeviceId, ...]
    size: int


@dataclass(frozen=True, slots=True)
class Alignment:
    """The free devices by their relation to the mask. Without a hint all are in ``no_affinity``."""

    aligned: frozenset[DeviceId]
    unaligned: frozenset[DeviceId]
    no_affinity: frozenset[DeviceId]


def filter_by_affinity(
    available: AbstractSet[DeviceId], devices: Mapping[DeviceId, Device], *, affinity: int | None
) -> Alignment:
    """Split ``available`` by the mask; a device with several nodes is aligned if any of them is in the mask.

    Node -1 is no topology. The mask counts only if some device of the resource, free or not, healthy or not,
    has topology.
    """
    if affinity is None or not any(device.nodes for device in devices.values()):
        return Alignment(aligned=NO_DEVICES, unaligned=NO_DEVICES, no_affinity=frozenset(available))
    with_topology = frozenset(one for one in available if any(node >= 0 for node in devices[one].nodes))
    aligned = frozenset(one for one in with_topology if _touches(devices[one], affinity))
    return Alignment(
        aligned=aligned,
        unaligned=with_topology - aligned,
        no_affinity=frozenset(available) - with_topology,
    )


def _touches(device: Device, affinity: int) -> bool:
    # Not ``device.mask``: a plugin may publish ids above 63, which the kubelet accepts.
    return any(node >= 0 and affinity >> node & 1 for node in device.nodes)


class _Taking:
    """The devices taken so far."""

    def __init__(self, size: int, pick: PickOrder) -> None:
        self.taken: set[DeviceId] = set()
        self._size = size
        self._pick = pick

    @property
    def needed(self) -> int:
        return self._size - len(self.taken)

    def take(self, ids: AbstractSet[DeviceId]) -> bool:
        """Take from ``ids`` while devices are needed; return whether none is needed any more."""
        for one in self._pick(ids - self.taken)[: self.needed]:
            self.taken.add(one)
        return self.needed == 0


def _healthy_devices(request: AllocationRequest) -> frozenset[DeviceId]:
    """Return the healthy devices; ``AllocationError`` where the kubelet refuses before it counts."""
    if request.devices is None:
        raise AllocationError(
            f"no device plugin has registered {request.resource}", reason=Refusal.UNREGISTERED
        )
    healthy = frozenset(device.id for device in request.devices.values() if device.healthy)
    if not healthy:
        raise AllocationError(f"{request.resource} has no healthy devices", reason=Refusal.NO_HEALTHY_DEVICES)
    if not (request.held or NO_DEVICES) <= healthy:
        raise AllocationError(
            f"a device of {request.resource} that the container holds is no longer healthy",
            reason=Refusal.HELD_DEVICE_UNHEALTHY,
        )
    return healthy


def devices_to_allocate(
    request: AllocationRequest, pick: PickOrder = natural_order
) -> Generator[PreferredCall, Sequence[DeviceId] | None, frozenset[DeviceId]]:
    """Yield the call that the kubelet makes, if any, take its reply and return the devices to allocate.

    At most one call is yielded. The reply is ``container_responses[0]``, or None if the plugin does not
    offer GetPreferredAllocation or answered with no container response. Ids of the reply that are not free
    (or not aligned, where the mask alone suffices) are ignored, superfluous ones are dropped in ``pick``
    order, missing ones are filled up. An empty result means that Allocate is not to be called.

    Raises ``AllocationError`` with a reason of ``Refusal``. An error of the plugin ends the steps: close
    the generator; ``PreferredCall.must_include`` then stays marked as in use (``DeviceManager``).
    """
    if request.held is not None and len(request.held) != request.size:
        raise AllocationError(
            f"the container holds {len(request.held)} of {request.resource} and now asks for {request.size}",
            reason=Refusal.REQUEST_CHANGED,
        )
    if request.already_running:
        return NO_DEVICES
    healthy = _healthy_devices(request)
    if request.held is not None or request.size == 0:
        return NO_DEVICES
    taking = _Taking(request.size, pick)
    if taking.take(request.reusable):
        return frozenset(taking.taken)
    available = healthy - request.in_use - taking.taken
    if len(available) < taking.needed:
        raise AllocationError(
            f"{request.resource}: {taking.needed} devices are needed, {len(available)} are free",
            reason=Refusal.TOO_FEW_DEVICES,
        )
    yield from _take_available(taking, available, request=request, pick=pick)
    return frozenset(taking.taken)


def _take_available(
    taking: _Taking, available: frozenset[DeviceId], *, request: AllocationRequest, pick: PickOrder
) -> Generator[PreferredCall, Sequence[DeviceId] | None, None]:
    """Take what is still needed from ``available``, which holds enough."""
    split = filter_by_affinity(available, request.devices or {}, affinity=request.affinity)
    offered: frozenset[DeviceId] = split.aligned
    fallbacks: tuple[frozenset[DeviceId], ...] = (split.aligned,)
    if taking.needed >= len(split.aligned):
        if taking.take(split.aligned):
            return
        offered, fallbacks = available, (split.unaligned, split.no_affinity)
    reply = yield PreferredCall(
        resource=request.resource,
        available=tuple(pick(offered | taking.taken)),
        must_include=tuple(pick(taking.taken)),
        size=request.size,
    )
    for ids in (frozenset(reply or ()) & offered, *fallbacks):
        if taking.take(ids):
            return
