"""A kubelet without a node: real gRPC on real sockets, below a folder of the caller's choice.

``device-plugins/kubelet.sock`` serves Registration, ``pod-resources/kubelet.sock`` serves PodResources; the
device-plugin client and the device manager's steps are the kubelet's. The Topology Manager's decision is not
taken here: a mask is passed in with the pod, or none (policy ``none``).

Time and concurrency: one event loop; one admission at a time, as in a kubelet. A start runs in a task of its
own that holds the task group of the plugins' streams and ends with ``stop``. ``stop`` waits for the admission
under way.

Not emulated: the scheduler, PreStartContainer, pods waiting for a plugin after a reboot, and the removal of a
resource five minutes after its plugin has gone.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from numaplace.errors import NumaplaceError
from numaplace.kubelet.api.deviceplugin_pb2_grpc import add_RegistrationServicer_to_server
from numaplace.kubelet.api.podresources_pb2_grpc import add_PodResourcesListerServicer_to_server
from numaplace.kubelet.channel import new_server, serving, unix_target
from numaplace.kubelet.emulator.admission import Admitter, Affinity
from numaplace.kubelet.emulator.node import Node
from numaplace.kubelet.emulator.order import MapOrder
from numaplace.kubelet.emulator.plugins import PluginServer, remove_sockets
from numaplace.kubelet.emulator.podresources import PodResourcesService
from numaplace.kubelet.emulator.values import (
    DEFAULT_LIMITS,
    NO_FAULTS,
    Admission,
    Call,
    EmulatedNode,
    Endpoint,
    Faults,
    Limits,
    PodResourcesMethod,
    PodSpec,
    Registration,
)
from numaplace.kubelet.emulator.waiting import Changes
from numaplace.model.device import Device
from numaplace.model.names import DeviceId, PodKey, ResourceName


class KubeletEmulator:
    """An async context manager: started on entry, stopped on exit.

    ``root`` must be short (107 bytes for a socket path); ``seed`` decides what a kubelet leaves to Go's
    map order. ``faults`` and ``on_publish``, which is called after each device list, may be replaced at any
    time; ``api_calls`` counts the calls of PodResources. With ``ask_plugins`` off the kubelet chooses alone,
    as if no plugin offered GetPreferredAllocation. ``InputError`` if ``root`` is too long.
    """

    def __init__(
        self,
        root: Path,
        node: EmulatedNode,
        *,
        seed: int = 0,
        faults: Faults = NO_FAULTS,
        limits: Limits = DEFAULT_LIMITS,
        ask_plugins: bool = True,
    ) -> None:
        unix_target(root / "device-plugins" / "kubelet.sock")
        self.faults = faults
        self.api_calls: Counter[PodResourcesMethod] = Counter()
        self.on_publish: Callable[[ResourceName], None] = lambda _: None
        self.device_plugins_dir = root / "device-plugins"
        self.pod_resources_socket = root / "pod-resources" / "kubelet.sock"
        self._order = MapOrder(seed)
        # Lists arrive at any time: they must not change the random numbers of admissions.
        self._node = Node(node, device_order=self._order, api_order=MapOrder(seed))
        self._limits = limits
        self._ask_plugins = ask_plugins
        self._changes = Changes()
        self._admissions = asyncio.Lock()
        self._calls: list[Call] = []
        self._plugins: PluginServer | None = None
        self._process: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Serve on fresh sockets; sockets in ``device-plugins`` are deleted first."""
        if self._process is not None:
            raise NumaplaceError("the emulator runs already")
        self._stopping = asyncio.Event()
        started = asyncio.Event()
        process = self._process = asyncio.create_task(self._run(started))
        waiting = asyncio.create_task(started.wait())
        try:
            await asyncio.wait({process, waiting}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # A caller that cancels a start does not call ``stop``.
            self._process = None
            process.cancel()
            await asyncio.wait({process})
            raise
        finally:
            waiting.cancel()
        if not started.is_set():
            self._process = None
            await process

    async def stop(self) -> None:
        """End the kubelet: streams, connections and sockets are closed, pods and allocations are kept."""
        if self._process is None:
            return
        async with self._admissions:
            process, self._process = self._process, None
            self._stopping.set()
            await process
            self._node.devices.restart()
            self._changes.notify()

    async def restart(self) -> None:
        """Stop and start. Running containers keep what they have, without a call to any plugin."""
        await self.stop()
        await self.start()

    async def _run(self, started: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as tasks:
            for folder in (self.device_plugins_dir, self.pod_resources_socket.parent):
                folder.mkdir(parents=True, exist_ok=True)
                remove_sockets(folder)
            plugins = PluginServer(
                self.device_plugins_dir,
                node=self._node,
                tasks=tasks,
                changes=self._changes,
                limits=self._limits,
                on_publish=lambda resource: self.on_publish(resource),
            )
            server = new_server()
            add_RegistrationServicer_to_server(plugins, server)
            server.add_insecure_port(unix_target(self.device_plugins_dir / "kubelet.sock"))
            api = new_server()
            service = PodResourcesService(self._node, faults=lambda: self.faults, calls=self.api_calls)
            add_PodResourcesListerServicer_to_server(service, api)
            api.add_insecure_port(unix_target(self.pod_resources_socket))
            try:
                async with serving(api), serving(server):
                    self._plugins = plugins
                    started.set()
                    try:
                        await self._stopping.wait()
                    finally:
                        self._plugins = None
            finally:
                plugins.stop()

    async def admit(
        self,
        pod: PodSpec,
        affinity: Affinity = None,
        *,
        resource_order: Sequence[ResourceName] | None = None,
    ) -> Admission:
        """Admit a pod: it is listed at once, and stays active unless the admission fails.

        ``affinity`` is the Topology Manager's mask for every container, or by container name.
        ``resource_order`` fixes the order of a container's resources (otherwise random).
        """
        async with self._admissions:
            if self._plugins is None:
                raise NumaplaceError("the emulator does not run")
            record = self._node.add(pod)
            admitter = Admitter(
                record,
                node=self._node,
                plugins=self._plugins,
                order=self._order,
                limits=self._limits,
                ask_plugins=self._ask_plugins,
            )
            admitted = False
            try:
                admission = await admitter.admit(affinity, resource_order)
                admitted = admission.admitted
                return admission
            finally:
                record.active = admitted
                self._calls.extend(admitter.calls)
                self._changes.notify()

    async def finish(self, pod: PodSpec | PodKey) -> None:
        """Let a pod's containers end; the pod stays known."""
        async with self._admissions:
            self.end(pod)

    def end(self, pod: PodSpec | PodKey) -> None:
        """Let a pod's containers end at once, in the middle of another pod's admission if need be."""
        self._node.end(_key(pod))

    async def remove(self, pod: PodSpec | PodKey) -> None:
        """Delete a pod. Its devices are freed at the kubelet's next List or admission."""
        async with self._admissions:
            self._node.remove(_key(pod))

    @property
    def running(self) -> bool:
        return self._plugins is not None

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        return self._plugins.endpoints if self._plugins else ()

    @property
    def registrations(self) -> tuple[Registration, ...]:
        """The Register calls since the last start."""
        return tuple(self._plugins.registrations) if self._plugins else ()

    @property
    def calls(self) -> tuple[Call, ...]:
        """All GetPreferredAllocation and Allocate calls so far, in order."""
        return tuple(self._calls)

    def published(self, resource: ResourceName) -> Mapping[DeviceId, Device]:
        """Return the devices of the resource as its plugin has published them last."""
        return self._node.devices.published(resource) or {}

    def in_use(self, resource: ResourceName) -> frozenset[DeviceId]:
        """Return the devices of the resource that are allocated."""
        return self._node.devices.in_use(resource)

    def allocatable(self, resource: ResourceName) -> frozenset[DeviceId]:
        """Return the healthy devices of the resource, allocated or not."""
        return frozenset(one.id for one in self.published(resource).values() if one.healthy)

    def containers(self, pod: PodSpec | PodKey) -> Mapping[str, Mapping[ResourceName, frozenset[DeviceId]]]:
        """Return what each container of a known pod holds, init containers included."""
        record = self._node.record(_key(pod))
        if record is None:
            return {}
        return {
            spec.name: {
                resource: frozenset(devices)
                for resource, devices in self._node.devices.held(record.uid, spec.name).items()
            }
            for spec, _ in record.spec.in_admission_order
        }

    async def wait_registered(
        self, resource: ResourceName, *, count: int | None = None, timeout_seconds: float = 10.0
    ) -> None:
        """Wait until ``count`` devices (None: any) of a connected plugin are healthy; ``TimeoutError``."""

        def ready() -> bool:
            healthy = len(self.allocatable(resource))
            connected = any(one.resource == resource for one in self.endpoints)
            return connected and (healthy > 0 if count is None else healthy == count)

        await self.wait_until(ready, timeout_seconds=timeout_seconds)

    async def wait_until(self, condition: Callable[[], bool], *, timeout_seconds: float = 10.0) -> None:
        """Wait for a condition on plugins, devices or pods; ``TimeoutError`` says what there was instead."""
        await self._changes.wait_for(condition, timeout_seconds=timeout_seconds, describe=self._describe)

    def _describe(self) -> str:
        devices = {one: len(self.allocatable(one)) for one in self._node.devices.resources}
        refused = [one for one in self.registrations if one.problem]
        return f"healthy devices {devices}, endpoints {self.endpoints}, refused {refused}"


def _key(pod: PodSpec | PodKey) -> PodKey:
    return pod.key if isinstance(pod, PodSpec) else pod
