"""The plugin's part under a stock Topology Manager: before a pod is admitted it decides what it publishes.

The state that the daemon reads from the PodResources API is taken from the managers here: exact, and
in time. Under scope ``container`` the set is renewed before each container is considered, under scope ``pod``
before each pod. Requests are those that the scenario declares, or else those of the pods admitted so far.
"""

from __future__ import annotations

from collections import Counter

from numaplace.managers.admission import Scope
from numaplace.managers.pod import Container, Pod
from numaplace.model.mask import mask_of
from numaplace.model.names import ResourceName
from numaplace.prediction.model import KubeletModel
from numaplace.prediction.pod_request import amounts_of, request_of
from numaplace.prediction.predict import predict
from numaplace.prediction.request import Request
from numaplace.prediction.state import DeviceGroup, DeviceGroups, SteeringState
from numaplace.simulate.scenario.records import KubeletSettings, PlacementSettings
from numaplace.simulate.simulator.managers import Managers
from numaplace.simulate.simulator.node import SimulatedNode
from numaplace.simulate.simulator.results import Steered
from numaplace.steering.choose import SteeringSettings, choose
from numaplace.steering.learned_requests import REMEMBERED_REQUESTS


class Steering:
    """Steering of all device resources of a node. ``steered`` are the sets since ``begin``."""

    def __init__(
        self, node: SimulatedNode, managers: Managers, kubelet: KubeletSettings, placement: PlacementSettings
    ) -> None:
        self.steered: tuple[Steered, ...] = ()
        self._node = node
        self._known = KubeletModel(
            managers.topology,
            kubelet.topology_policy,
            kubelet.scope,
            managers.options,
            managers.cpu,
            managers.memory,
            frozenset(node.devices.resources),
        )
        self._settings = SteeringSettings(
            strategy=placement.strategy,
            weights=placement.weights,
            headroom=placement.headroom,
            always=placement.always,
        )
        self._declared = placement.requests
        self._seen: tuple[Request, ...] = ()

    def begin(self, pod: Pod) -> None:
        self.steered = ()
        by_container = self._known.scope is Scope.CONTAINER
        self._publish(pod, pod.in_order[0] if by_container else None)

    def allocated(self, pod: Pod, container: Container) -> None:
        """Publish before the next container is considered, if there is one with a decision of its own."""
        following = pod.in_order[pod.in_order.index(container) + 1 :]
        if following and self._known.scope is Scope.CONTAINER:
            self._publish(pod, following[0])

    def admitted(self, pod: Pod) -> None:
        request = request_of(pod, self._known.scope)
        if request.containers:
            others = [one for one in self._seen if one != request]
            self._seen = (*others, request)[-REMEMBERED_REQUESTS:]

    def _publish(self, pod: Pod, container: Container | None) -> None:
        state = state_of_node(self._node)
        decision = choose(
            self._known,
            [state],
            self._declared or self._seen,
            settings=self._settings,
            certain=bool(self._declared),
        )
        self._node.publish(decision.withheld)
        unit = request_of(pod, Scope.POD) if container is None else Request.of(amounts_of(pod, container))
        stock = None
        if any(resource in decision.withheld for resource in unit.total):
            known = (one.stock for one in decision.requests if one.request == unit)
            stock = next(known, None) or predict(self._known, state, unit)
        name = "" if container is None else container.name
        self.steered = (*self.steered, Steered(name, decision, tuple(unit.total), stock))


def state_of_node(node: SimulatedNode) -> SteeringState:
    """Return the current state, with the devices' real topology, whatever is published."""
    devices = {resource: _groups(node, resource) for resource in sorted(node.devices.resources)}
    return SteeringState(devices, node.cpu.state, node.memory.state)


def _groups(node: SimulatedNode, resource: ResourceName) -> DeviceGroups:
    total: Counter[int] = Counter()
    healthy: Counter[int] = Counter()
    allocated: Counter[int] = Counter()
    in_use = node.devices.in_use(resource)
    for device in node.hardware(resource).values():
        mask = mask_of(device.nodes)
        total[mask] += 1
        healthy[mask] += device.healthy
        allocated[mask] += device.healthy and device.id in in_use
    return tuple(DeviceGroup(mask, total[mask], healthy[mask], allocated[mask]) for mask in sorted(total))
