"""The plugin's part under a stock kubelet: GetPreferredAllocation, answered by the placement engine.

What the daemon reads from the PodResources API, and the requests that it gets from the API server, are taken
from the managers and the scenario here, complete and in time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from numaplace.engine.options import PolicyOptions
from numaplace.managers.device_manager import PodUid
from numaplace.managers.devices import PreferredCall, natural_order
from numaplace.managers.pod import Container, Pod
from numaplace.model.device import Device
from numaplace.model.mask import mask_of
from numaplace.model.names import DeviceId, ResourceName
from numaplace.model.podresources import Allocatable, ContainerUse, PodUse
from numaplace.placement.index import DeviceIndex, index_devices
from numaplace.placement.place import PlacementRequest, place
from numaplace.placement.reasons import Asker, Placement
from numaplace.prediction.cpus import cpus_ahead
from numaplace.simulate.simulator.node import SimulatedNode
from numaplace.state.attribution import pinned_request
from numaplace.state.snapshot import ContributionCache, Snapshot, build_snapshot

Placements = Mapping[tuple[str, ResourceName], Placement]
"""The placements of one admission by container and resource, in the order in which they were made."""


class PreferredPlugin:
    """Plugins for all resources of a node, placing by ``options``. ``step`` is their clock.

    ``follow_cpus``: devices go where the container's CPUs will be. Only under policy ``none``.
    """

    def __init__(self, options: PolicyOptions, *, follow_cpus: bool) -> None:
        self.step = 0
        self._follow_cpus = follow_cpus
        self._options = options
        self._placements: dict[tuple[str, ResourceName], Placement] = {}
        self._uses: dict[PodUid, PodUse] = {}
        self._freed: dict[ResourceName, dict[DeviceId, float]] = {}
        self._cache = ContributionCache()
        self._allocatable: Allocatable | None = None
        self._indexes: dict[ResourceName, tuple[Mapping[DeviceId, Device], DeviceIndex]] = {}

    def begin(self, step: int) -> None:
        self.step = step
        self._placements = {}

    @property
    def placements(self) -> Placements:
        return self._placements

    def answer(
        self, node: SimulatedNode, call: PreferredCall, *, pod: Pod, container: Container
    ) -> Sequence[DeviceId]:
        held = node.devices.held(pod.uid, container.name)
        asked = pinned_request(pod, container)
        request = PlacementRequest(
            available=call.available,
            must_include=call.must_include,
            size=call.size,
            asker=Asker(
                held=mask_of(
                    one
                    for resource, ids in held.items()
                    for id_ in ids
                    for one in node.nodes_of(resource, id_)
                ),
                rest={name: n for name, n in asked.items() if name != call.resource and name not in held},
                requested=frozenset(asked),
                cpus=self._cpus_ahead(node, pod, container),
            ),
            freed_at=self._freed.get(call.resource, {}),
        )
        placement = place(
            request,
            index=self._index(node, call.resource),
            topology=node.topology,
            snapshot=self._snapshot(node, call, pod),
            options=self._options,
        )
        self._placements[container.name, call.resource] = placement
        return placement.ids

    def keep(self, node: SimulatedNode, uid: PodUid, containers: Sequence[str]) -> None:
        """Store what a pod holds from now on."""
        self._uses[uid] = _use_of(node, uid, containers)

    def freed(self, node: SimulatedNode, uid: PodUid) -> None:
        """Note that a pod's devices are freed now; call it before that."""
        self._uses.pop(uid, None)
        for container in node.devices.containers_of(uid):
            for resource, ids in node.devices.held(uid, container).items():
                self._freed.setdefault(resource, {}).update(dict.fromkeys(ids, float(self.step)))

    def _cpus_ahead(self, node: SimulatedNode, pod: Pod, container: Container) -> int:
        if not self._follow_cpus:
            return 0
        return cpus_ahead(node.cpu_policy, node.cpu.state, pod, container.name, topology=node.topology)

    def _index(self, node: SimulatedNode, resource: ResourceName) -> DeviceIndex:
        devices = node.hardware(resource)
        known = self._indexes.get(resource)
        if known is None or known[0] is not devices:
            known = self._indexes[resource] = (devices, index_devices(devices.values()))
        return known[1]

    def _snapshot(self, node: SimulatedNode, call: PreferredCall, pod: Pod) -> Snapshot:
        if self._allocatable is None:
            self._allocatable = Allocatable(
                cpus=node.cpu_policy.allocatable, memory=node.memory_policy.allocatable()
            )
        asking = _use_of(node, pod.uid, [one.name for one in pod.in_order])
        resources = node.devices.resources
        return build_snapshot(
            topology=node.topology,
            allocatable=self._allocatable,
            pods=(*self._uses.values(), asking),
            devices={one: node.hardware(one) for one in resources},
            granted={one: node.devices.in_use(one) for one in resources},
            offered={call.resource: frozenset(call.available).difference(call.must_include)},
            taken_at_seconds=float(self.step),
            cache=self._cache,
        )


def _use_of(node: SimulatedNode, uid: PodUid, containers: Sequence[str]) -> PodUse:
    """Return a pod's CPUs and memory; its devices are counted as granted."""
    uses = tuple(
        ContainerUse(name, cpus=node.held_cpus(uid, name), memory=node.held_memory(uid, name))
        for name in containers
    )
    return PodUse("", str(uid), uses)


def prefer_lowest(call: PreferredCall, _pod: Pod, _container: Container) -> Sequence[DeviceId]:
    """Prefer the lowest ids in natural order: a plugin that makes the kubelet deterministic."""
    rest = [id_ for id_ in natural_order(call.available) if id_ not in call.must_include]
    return (*call.must_include, *rest)[: call.size]
