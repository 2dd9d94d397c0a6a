"""One pod's admission: containers in order, for each its devices, then its CPUs, then its memory.

Reimplements kubelet v1.37.2 ``pkg/kubelet/cm/topologymanager/scope.go`` (``admitPolicyNone`` and
``allocateAlignedResources``) and the calls in ``devicemanager/manager.go``
(``callGetPreferredAllocationIfAvailable`` and the Allocate call of ``allocateContainerResources``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from numaplace.errors import AllocationError, PeerError
from numaplace.kubelet.api import deviceplugin_pb2 as pb
from numaplace.kubelet.channel import answer_of
from numaplace.kubelet.emulator.node import Node, PodRecord
from numaplace.kubelet.emulator.order import MapOrder
from numaplace.kubelet.emulator.plugins import PluginClient, PluginServer
from numaplace.kubelet.emulator.values import (
    UNEXPECTED_ADMISSION_ERROR,
    Admission,
    Call,
    ContainerSpec,
    Limits,
)
from numaplace.managers.admission import TOPOLOGY_AFFINITY_ERROR, TOPOLOGY_AFFINITY_MESSAGE
from numaplace.managers.device_manager import AllocateCall, Calls, ContainerRequest
from numaplace.managers.device_manager import Call as Step
from numaplace.managers.devices import PreferredCall
from numaplace.model.device import ContainerEdits, DeviceNode, Mount
from numaplace.model.names import DeviceId, ResourceName

Affinity = int | None | Mapping[str, int | None]
"""The Topology Manager's mask for all containers, for some by name, or none."""

_NO_RESPONSE = "NO_CONTAINER_RESPONSE"


class Admitter:
    """Admits one pod. ``calls`` grows as the calls are made."""

    def __init__(
        self,
        record: PodRecord,
        *,
        node: Node,
        plugins: PluginServer,
        order: MapOrder,
        limits: Limits,
        ask_plugins: bool = True,
    ) -> None:
        self._record = record
        self._node = node
        self._plugins = plugins
        self._order = order
        self._limits = limits
        self._ask_plugins = ask_plugins
        self._edits: dict[str, dict[ResourceName, ContainerEdits]] = {}
        self.calls: list[Call] = []

    async def admit(self, affinity: Affinity, resource_order: Sequence[ResourceName] | None) -> Admission:
        """Admit all containers; the first that fails ends it."""
        try:
            for spec, kind in self._record.spec.in_admission_order:
                mask = affinity.get(spec.name) if isinstance(affinity, Mapping) else affinity
                aligned = self._node.aligned
                if aligned is not None:
                    self._node.release_inactive()
                    admitted, mask = aligned.decide(
                        self._record.uid, self._record.spec, spec.name, devices=self._node.devices
                    )
                    if not admitted:
                        return self._result(reason=TOPOLOGY_AFFINITY_ERROR, message=TOPOLOGY_AFFINITY_MESSAGE)
                request = ContainerRequest(
                    pod=self._record.uid,
                    name=spec.name,
                    resources=self._in_order(spec, resource_order),
                    kind=kind,
                    affinity=mask,
                )
                active = self._node.active_uids
                await self._drive(self._node.devices.allocate(request, active=active), container=spec.name)
                self._node.compute.release_inactive(active)
                self._node.compute.allocate(self._record.uid, spec, kind=kind, affinity=mask)
        except (AllocationError, PeerError) as error:
            return self._result(reason=UNEXPECTED_ADMISSION_ERROR, message=str(error))
        return self._result()

    def _in_order(
        self, spec: ContainerSpec, resource_order: Sequence[ResourceName] | None
    ) -> tuple[tuple[ResourceName, int], ...]:
        """Return the limits as the kubelet walks them: a map, unless the caller fixes the order."""
        if resource_order is None:
            return tuple(self._order.walk(spec.devices.items()))
        known = [one for one in resource_order if one in spec.devices]
        rest = [one for one in spec.devices if one not in known]
        return tuple((one, spec.devices[one]) for one in (*known, *rest))

    async def _drive(self, steps: Calls, *, container: str) -> None:
        try:
            step = next(steps)
            while True:
                try:
                    reply = await self._make(step, container=container)
                except PeerError as failure:
                    if failure.code == _NO_RESPONSE:
                        # The kubelet leaves the devices marked as in use here: the steps must not clean up.
                        steps.close()
                        raise
                    step = steps.throw(failure)
                else:
                    step = steps.send(reply)
        except StopIteration:
            return

    async def _make(self, step: Step, *, container: str) -> tuple[DeviceId, ...] | None:
        if isinstance(step, PreferredCall):
            return await self._prefer(step, container=container)
        await self._allocate(step, container=container)
        return None

    async def _prefer(self, step: PreferredCall, *, container: str) -> tuple[DeviceId, ...] | None:
        plugin = self._plugin(step.resource)
        if not (self._ask_plugins and plugin.options.get_preferred_allocation_available):
            return None
        answer: tuple[DeviceId, ...] = ()
        error = ""
        started = _now()
        request = pb.PreferredAllocationRequest(
            container_requests=[
                pb.ContainerPreferredAllocationRequest(
                    available_deviceIDs=step.available,
                    must_include_deviceIDs=step.must_include,
                    allocation_size=step.size,
                )
            ]
        )
        try:
            reply = await answer_of(
                plugin.stub.GetPreferredAllocation(request, timeout=self._limits.call_seconds),
                what=f"GetPreferredAllocation of {step.resource}",
            )
            if reply.container_responses:
                answer = tuple(DeviceId(one) for one in reply.container_responses[0].deviceIDs)
        except PeerError as failure:
            error = failure.code
            raise
        finally:
            self.calls.append(
                Call(
                    method="GetPreferredAllocation",
                    pod=self._record.spec.key,
                    container=container,
                    resource=step.resource,
                    available=tuple(sorted(step.available)),
                    must_include=tuple(sorted(step.must_include)),
                    size=step.size,
                    answer=answer,
                    error=error,
                    seconds=_now() - started,
                )
            )
        return answer

    async def _allocate(self, step: AllocateCall, *, container: str) -> None:
        plugin = self._plugin(step.resource)
        error = ""
        started = _now()
        request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=step.ids)])
        try:
            reply = await answer_of(
                plugin.stub.Allocate(request, timeout=self._limits.call_seconds),
                what=f"Allocate of {step.resource}",
            )
        except PeerError as failure:
            error = failure.code
            raise
        finally:
            self.calls.append(
                Call(
                    method="Allocate",
                    pod=self._record.spec.key,
                    container=container,
                    resource=step.resource,
                    size=len(step.ids),
                    answer=tuple(sorted(step.ids)),
                    error=error,
                    seconds=_now() - started,
                )
            )
        if not reply.container_responses:
            raise PeerError(f"Allocate of {step.resource}: no container response", code=_NO_RESPONSE)
        edits = edits_of(reply.container_responses[0])
        self._edits.setdefault(container, {})[step.resource] = edits

    def _plugin(self, resource: ResourceName) -> PluginClient:
        plugin = self._plugins.primary(resource)
        if plugin is None:
            raise PeerError(f"no plugin of {resource} is connected", code="STOPPED")
        return plugin

    def _result(self, *, reason: str = "", message: str = "") -> Admission:
        uid = self._record.uid
        names = [spec.name for spec, _ in self._record.spec.in_admission_order]
        return Admission(
            admitted=not reason,
            reason=reason,
            message=message,
            calls=tuple(self.calls),
            containers={
                name: {
                    resource: tuple(sorted(devices))
                    for resource, devices in self._node.devices.held(uid, name).items()
                }
                for name in names
            },
            edits=self._edits,
            cpus={name: self._node.compute.cpus(uid, name) for name in names},
            memory={name: self._node.compute.memory(uid, name) for name in names},
        )


def _now() -> float:
    return asyncio.get_running_loop().time()


def edits_of(response: pb.ContainerAllocateResponse) -> ContainerEdits:
    return ContainerEdits(
        env=dict(response.envs),
        device_nodes=tuple(
            DeviceNode(one.host_path, one.container_path, one.permissions) for one in response.devices
        ),
        mounts=tuple(Mount(one.host_path, one.container_path, one.read_only) for one in response.mounts),
        cdi_devices=tuple(one.name for one in response.cdi_devices),
        annotations=dict(response.annotations),
    )
