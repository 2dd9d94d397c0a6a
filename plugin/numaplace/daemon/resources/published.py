"""What ListAndWatch shows of a resource's devices: steering may withhold their topology."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from numaplace.kubelet.plugin.devicelist import DeviceList, DeviceListBroadcaster
from numaplace.model.device import Device
from numaplace.model.names import DeviceId, ResourceName
from numaplace.model.podresources import Allocatable
from numaplace.steering.hidden_devices import HiddenDevices
from numaplace.steering.published_topology import is_reported, published_nodes


class PublishedTopology:
    """The daemon knows all devices with their NUMA nodes; only what is published differs."""

    def __init__(self, resource: ResourceName, *, clock: Callable[[], float]) -> None:
        self._resource = resource
        self._clock = clock
        self.board = DeviceListBroadcaster()
        self.hidden = HiddenDevices()
        self.real_devices: tuple[Device, ...] = ()
        """The devices with the NUMA nodes that they have, published or not."""

    def devices(self) -> DeviceList:
        return self.board.current

    def replace(self, devices: tuple[Device, ...]) -> None:
        self.real_devices = devices
        self.publish(0, in_use=frozenset())

    def publish(self, withheld: int, *, in_use: frozenset[DeviceId]) -> bool:
        """Publish the devices: those that are not in use and touch a withheld NUMA node without topology.

        Return whether the list is another one now.
        """
        before = self.board.current
        devices = self.real_devices
        if withheld:
            devices = tuple(
                _shown(device, published_nodes(device, in_use=device.id in in_use, withheld=withheld))
                for device in devices
            )
        self.board.publish(before.replaced_by(devices))
        self.hidden.published(self.real_devices, devices, withheld=withheld, now_seconds=self._clock())
        return self.board.current is not before

    async def delivered(self, timeout_seconds: float) -> bool:
        return await self.board.delivered(timeout_seconds)

    def shown_by(self, allocatable: Allocatable) -> bool:
        """Return whether the kubelet reports the devices as they are published, or follows none."""
        return not self.board.followed or is_reported(self._resource, self.board.current.devices, allocatable)

    def withheld_per_node(self) -> Mapping[int, int]:
        return Counter(node for nodes in self.hidden.now.values() for node in nodes)


def _shown(device: Device, nodes: tuple[int, ...]) -> Device:
    return device if nodes == device.nodes else replace(device, nodes=nodes)
