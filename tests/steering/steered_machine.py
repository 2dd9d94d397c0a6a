"""A kubelet of ported managers that is steered as the daemon does it: at every grant, and at rest.

The daemon's I/O is left out: Lists are read in the middle of an admission, sets arrive at once.
"""

from __future__ import annotations

from dataclasses import replace

from numaplace.managers.device_manager import AllocateCall, ContainerRequest, PodUid
from numaplace.managers.devices import natural_order
from numaplace.managers.kubelet import DeviceProvider
from numaplace.model.names import DeviceId, ResourceName
from numaplace.model.observation import Observation
from numaplace.model.podresources import Allocatable, ContainerUse, DeviceBlock, PodUse
from numaplace.prediction.request import Request
from numaplace.state.admission import AdmissionLog
from numaplace.state.attribution import NO_SPECS, Specs, attribute
from numaplace.state.list_change import ListChange
from numaplace.state.snapshot import Snapshot, build_snapshot
from numaplace.steering.choose import SteeringSettings
from numaplace.steering.triggers import (
    Decided,
    GrantSeen,
    RequestsInForce,
    decision_at_rest,
    decision_on_allocate,
)
from steering_machine import Hardware, Machine


def aligned(machine: Machine, name: str) -> bool:
    """Return whether each container of a pod is on one NUMA node with all that it has."""
    node_of_cpu = machine.topology.node_of_cpu()
    uid = PodUid(name)
    for container in machine.kubelet.pods[uid].containers:
        homes = [{node_of_cpu[cpu]} for cpu in machine.cpu.state.cpus(uid, container.name) or ()]
        homes += [set(block.nodes) for block in machine.memory.state.assigned.get((uid, container.name), ())]
        for resource, ids in machine.devices.held(uid, container.name).items():
            homes += [set(machine.tables[resource][one].nodes) for one in ids]
        if homes and not set.intersection(*homes):
            return False
    return True


class _Provider(DeviceProvider):
    """Asks the plugin to allocate, as the kubelet does, resource after resource."""

    granted = staticmethod(lambda _resource, _ids: None)

    def allocate(self, pod, container, affinity):
        request = ContainerRequest(
            pod=pod.uid,
            name=container.name,
            resources=tuple(sorted(container.limits.items())),
            kind=container.kind,
            affinity=affinity.mask,
        )
        steps = self.manager.allocate(request, active=self.active)
        reply = None
        try:
            while True:
                call = steps.send(reply)
                if isinstance(call, AllocateCall):
                    self.granted(call.resource, call.ids)
                    reply = None
                else:
                    reply = natural_order(call.available)[: call.size]
        except StopIteration:
            return


class SteeredMachine(Machine):
    """``requests`` are those that may arrive; ``decisions`` all that was decided, the latest last."""

    def __init__(
        self,
        hardware: Hardware,
        requests: RequestsInForce,
        settings: SteeringSettings,
        *,
        specs: bool = False,
    ) -> None:
        super().__init__(hardware)
        old = self.kubelet.devices
        provider = _Provider(
            old.manager,
            numa_nodes=self.topology.nodes,
            answer=lambda *_: None,
            over_all_nodes=hardware.hints_over_all_nodes,
        )
        provider.granted = self._granted
        self.kubelet.devices = provider
        self.requests, self.settings, self.with_specs = requests, settings, specs
        self.node = hardware.steering_node()
        self.withheld = {}
        self.decisions: list[Decided] = []
        self._log, self._list = AdmissionLog(), ListChange()
        self._under_admission = None
        self.at_rest()

    def at_rest(self) -> None:
        """Decide with nothing under admission."""
        snapshot = self._seen()
        self._take(
            decision_at_rest(self.node, snapshot, requests=self.requests, settings=self.settings),
            in_flight={},
        )

    def admit(self, name: str, request: Request):
        """Admit a pod under what is withheld now; return the kubelet's outcome."""
        pod = replace(request.pod(), uid=PodUid(name), name=name, namespace="default")
        self._under_admission = pod
        outcome = self.kubelet.admit(pod)
        if outcome.admitted:
            self.kubelet.start(pod)
        self._under_admission = None
        return outcome

    def stock(self, name: str, request: Request) -> tuple[bool, bool]:
        """Return whether a stock kubelet in the same state admits the pod, and aligns each container."""
        copy = self.copy()
        admitted = copy.create(name, request).admitted
        return admitted, admitted and aligned(copy, name)

    def _granted(self, resource: ResourceName, ids) -> None:
        if resource not in self.hardware.steerable:
            return
        granted = {resource: frozenset(ids)}
        snapshot = self._seen(granted=granted)
        admission = self._log.admission_for(self._list.entries, resource)
        pod = self._under_admission
        specs = Specs({(pod.namespace, pod.name): pod}) if self.with_specs else NO_SPECS
        grant = GrantSeen(
            resource, granted[resource], attribute(admission, resource, len(granted[resource]), specs=specs)
        )
        decided = decision_on_allocate(
            self.node,
            snapshot,
            grant,
            requests=self.requests,
            settings=self.settings,
            withheld=self.withheld,
        )
        self._take(decided, in_flight=granted)

    def _take(self, decided: Decided, *, in_flight) -> None:
        self.decisions.append(decided)
        self.withheld = decided.decision.withheld
        for resource, table in self.tables.items():
            used = self.devices.in_use(resource) | in_flight.get(resource, frozenset())
            hidden = self.withheld.get(resource, 0)
            self.devices.publish(
                resource,
                [
                    device
                    if id_ in used or not device.healthy or not hidden & device.mask
                    else replace(device, nodes=())
                    for id_, device in table.items()
                ],
            )

    def _seen(self, *, granted=None) -> Snapshot:
        pods = [self._listed(pod) for pod in self.kubelet.pods.values()]
        if self._under_admission is not None:
            pods.append(self._listed(self._under_admission))
        self._list = self._list.then(Observation(tuple(pods), Allocatable(), 0.0))
        self._log = self._log.after_list(self._list)
        foreign = {resource for resource in self.tables if resource not in self.hardware.steerable}
        blocks = tuple(
            DeviceBlock(resource, (id_,), device.nodes)
            for resource in sorted(foreign)
            for id_, device in self.tables[resource].items()
            if device.healthy
        )
        return build_snapshot(
            topology=self.topology,
            allocatable=Allocatable(blocks, self.cpu.policy.allocatable, self.memory.policy.allocatable()),
            pods=pods,
            devices={one: table for one, table in self.tables.items() if one not in foreign},
            granted=granted or {},
            taken_at_seconds=0.0,
        )

    def _listed(self, pod) -> PodUse:
        return PodUse(
            "default",
            pod.name,
            tuple(
                ContainerUse(
                    one.name,
                    tuple(
                        DeviceBlock(resource, tuple(DeviceId(id_) for id_ in ids))
                        for resource, ids in self.devices.held(pod.uid, one.name).items()
                    ),
                    self.cpu.state.cpus(pod.uid, one.name) or frozenset(),
                    self.memory.state.assigned.get((pod.uid, one.name), ()),
                )
                for one in pod.containers
            ),
        )
