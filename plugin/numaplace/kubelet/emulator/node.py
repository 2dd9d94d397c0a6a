"""The emulated node's memory, and how the PodResources API shows it.

Reimplements kubelet v1.37.2 ``apis/podresources/server_v1.go`` (``List``, ``Get``,
``GetAllocatableResources``), ``cm/container_manager.go`` (``containerDevicesFromResourceDeviceInstances``)
and ``GetActivePods``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count

from numaplace.kubelet.api import deviceplugin_pb2, podresources_pb2
from numaplace.kubelet.emulator.aligned import ALIGNING, AlignedCompute
from numaplace.kubelet.emulator.compute import Compute
from numaplace.kubelet.emulator.order import MapOrder
from numaplace.kubelet.emulator.values import ContainerSpec, EmulatedNode, PodSpec
from numaplace.managers.device_manager import ContainerKind, DeviceManager, PodUid
from numaplace.model.device import Device
from numaplace.model.names import DeviceId, PodKey, ResourceName
from numaplace.model.podresources import MemoryBlock

HEALTHY = "Healthy"


@dataclass(slots=True)
class PodRecord:
    """A pod that the kubelet knows. It is inactive once it has ended or was rejected."""

    uid: PodUid
    spec: PodSpec
    active: bool = True


class Node:
    """Pods, devices, CPUs and memory. Survives a restart of the kubelet (see ``restart``)."""

    def __init__(self, machine: EmulatedNode, *, device_order: MapOrder, api_order: MapOrder) -> None:
        self.devices = DeviceManager(device_order.ids)
        self.aligned = AlignedCompute(machine) if machine.topology_policy in ALIGNING else None
        self.compute: Compute | AlignedCompute = self.aligned or Compute(machine)
        self._order = api_order
        self._pods: dict[PodKey, PodRecord] = {}
        self._uids = count(1)
        self._without_nodes: dict[ResourceName, frozenset[DeviceId]] = {}

    def add(self, spec: PodSpec) -> PodRecord:
        """Make a pod known, active from now on; ``ValueError`` if an active one has its name."""
        if spec.key in self.active_keys:
            raise ValueError(f"pod {spec.namespace}/{spec.name} is already there")
        record = PodRecord(uid=PodUid(f"uid-{next(self._uids)}"), spec=spec)
        self._pods[spec.key] = record
        return record

    def end(self, key: PodKey) -> None:
        """Let a pod end; it stays known. ``KeyError`` if it is not."""
        self._pods[key].active = False

    def remove(self, key: PodKey) -> None:
        del self._pods[key]

    @property
    def active_keys(self) -> frozenset[PodKey]:
        return frozenset(key for key, record in self._pods.items() if record.active)

    @property
    def active_uids(self) -> frozenset[PodUid]:
        return frozenset(record.uid for record in self._pods.values() if record.active)

    def release_inactive(self) -> None:
        active = self.active_uids
        self.devices.release_inactive(active)
        self.compute.release_inactive(active)

    def record(self, key: PodKey) -> PodRecord | None:
        return self._pods.get(key)

    def publish(self, resource: ResourceName, devices: Iterable[deviceplugin_pb2.Device]) -> None:
        """Take a ListAndWatch message."""
        message = list(devices)
        self._without_nodes[resource] = frozenset(
            DeviceId(one.ID) for one in message if one.HasField("topology") and not one.topology.nodes
        )
        self.devices.publish(
            resource,
            (
                Device(
                    id=DeviceId(one.ID),
                    nodes=tuple(sorted({node.ID for node in one.topology.nodes})),
                    healthy=one.health == HEALTHY,
                )
                for one in message
            ),
        )

    def list_reply(self) -> podresources_pb2.ListPodResourcesResponse:
        """Answer List. As in the kubelet, listing frees the devices of pods that have ended."""
        self.devices.release_inactive(self.active_uids)
        pods = [record for record in self._pods.values() if record.active]
        return podresources_pb2.ListPodResourcesResponse(
            pod_resources=[self._pod(record) for record in self._order.walk(pods)]
        )

    def get_reply(self, key: PodKey) -> podresources_pb2.GetPodResourcesResponse | None:
        """Answer Get; None if no active pod has that name."""
        record = self._pods.get(key)
        if record is None or not record.active:
            return None
        return podresources_pb2.GetPodResourcesResponse(pod_resources=self._pod(record))

    def allocatable_reply(self) -> podresources_pb2.AllocatableResourcesResponse:
        """Answer GetAllocatableResources: capacity without unhealthy devices and reserved CPUs."""
        return podresources_pb2.AllocatableResourcesResponse(
            devices=self._order.walk(self._allocatable_devices()),
            cpu_ids=self._order.walk(sorted(self.compute.allocatable_cpus)),
            memory=[_memory(block) for block in self._order.walk(self.compute.allocatable_memory)],
        )

    def _allocatable_devices(self) -> Iterator[podresources_pb2.ContainerDevices]:
        for resource in self.devices.resources:
            for device in (self.devices.published(resource) or {}).values():
                # The kubelet leaves out a device with a topology that names no node.
                if device.healthy and device.id not in self._without_nodes.get(resource, ()):
                    yield from _device_entries(resource, device.id, device.nodes)

    def _pod(self, record: PodRecord) -> podresources_pb2.PodResources:
        return podresources_pb2.PodResources(
            name=record.spec.name,
            namespace=record.spec.namespace,
            containers=[
                self._container(record.uid, spec)
                for spec, kind in record.spec.in_admission_order
                if kind is not ContainerKind.INIT
            ],
        )

    def _container(self, uid: PodUid, spec: ContainerSpec) -> podresources_pb2.ContainerResources:
        held = self.devices.held(uid, spec.name)
        entries = [
            entry
            for resource, nodes_of_device in held.items()
            for one, nodes in nodes_of_device.items()
            for entry in _device_entries(resource, one, [node for node in nodes if node >= 0])
        ]
        return podresources_pb2.ContainerResources(
            name=spec.name,
            devices=self._order.walk(entries),
            cpu_ids=self._order.walk(sorted(self.compute.cpus(uid, spec.name))),
            memory=[_memory(block) for block in self.compute.memory(uid, spec.name)],
        )


def _topology(nodes: Iterable[int]) -> podresources_pb2.TopologyInfo:
    return podresources_pb2.TopologyInfo(nodes=[podresources_pb2.NUMANode(ID=node) for node in nodes])


def _device_entries(
    resource: ResourceName, one: DeviceId, nodes: Iterable[int]
) -> list[podresources_pb2.ContainerDevices]:
    """One entry per device and NUMA node; without nodes one entry without topology."""
    topologies: list[podresources_pb2.TopologyInfo | None] = [_topology([node]) for node in nodes]
    return [
        podresources_pb2.ContainerDevices(resource_name=resource, device_ids=[one], topology=topology)
        for topology in topologies or [None]
    ]


def _memory(block: MemoryBlock) -> podresources_pb2.ContainerMemory:
    return podresources_pb2.ContainerMemory(
        memory_type=block.type, size=block.size_bytes, topology=_topology(block.nodes)
    )
