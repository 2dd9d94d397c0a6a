"""A kubelet's resource managers together: pods are admitted or refused, and deleted.

The managers' policies are pure; this holds their states. One admission at a time, as in a kubelet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from numaplace.engine.hint import Hint
from numaplace.managers.admission import HintProvider, Hints, Merge, Outcome, Scope, admit
from numaplace.managers.device_hints import container_device_hints, pod_device_hints
from numaplace.managers.device_manager import ContainerKind, ContainerRequest, DeviceManager, PodUid
from numaplace.managers.devices import PreferredCall
from numaplace.managers.pod import Container, Pod
from numaplace.model.names import DeviceId
from numaplace.model.topology import NumaTopology

Answer = Callable[[PreferredCall, Pod, Container], Sequence[DeviceId] | None]
"""A plugin's GetPreferredAllocation; ``None`` where it has none. Pod and container are not in the call: a
plugin has to infer them."""

S = TypeVar("S")


class ResourcePolicy(Protocol[S]):
    """The CPU or the memory manager's policy over its state ``S``, a value."""

    def initial_state(self) -> S: ...

    def container_hints(self, state: S, pod: Pod, container: Container) -> Hints: ...

    def pod_hints(self, state: S, pod: Pod) -> Hints: ...

    def allocate(self, state: S, pod: Pod, container: Container, affinity: Hint) -> S:
        """Return the state with the container's share taken; ``AllocationError`` if that cannot be."""
        ...

    def remove(self, state: S, pod: PodUid, container: str) -> S: ...


class RemovingProvider(HintProvider, Protocol):
    """A hint provider that is notified of each container's end."""

    def remove(self, pod: PodUid, container: str) -> None: ...


class StatefulProvider(Generic[S]):
    """A policy with its current state."""

    def __init__(self, policy: ResourcePolicy[S]) -> None:
        self.policy = policy
        self.state = policy.initial_state()

    def container_hints(self, pod: Pod, container: Container) -> Hints:
        return self.policy.container_hints(self.state, pod, container)

    def pod_hints(self, pod: Pod) -> Hints:
        return self.policy.pod_hints(self.state, pod)

    def allocate(self, pod: Pod, container: Container, affinity: Hint) -> None:
        self.state = self.policy.allocate(self.state, pod, container, affinity)

    def remove(self, pod: PodUid, container: str) -> None:
        self.state = self.policy.remove(self.state, pod, container)


class DeviceProvider:
    """The device manager as a ``HintProvider``; ``answer`` takes the plugins' place."""

    def __init__(
        self,
        manager: DeviceManager,
        *,
        numa_nodes: tuple[int, ...],
        answer: Answer,
        over_all_nodes: bool = False,
    ) -> None:
        self.manager = manager
        self.active: set[PodUid] = set()
        self._numa_nodes = numa_nodes
        self._over_all_nodes = over_all_nodes
        self._answer = answer

    def container_hints(self, pod: Pod, container: Container) -> Hints:
        self.manager.release_inactive(self.active)
        return container_device_hints(
            self.manager,
            pod,
            container,
            numa_nodes=self._numa_nodes,
            over_all_nodes=self._over_all_nodes,
        )

    def pod_hints(self, pod: Pod) -> Hints:
        self.manager.release_inactive(self.active)
        return pod_device_hints(
            self.manager, pod, numa_nodes=self._numa_nodes, over_all_nodes=self._over_all_nodes
        )

    def allocate(self, pod: Pod, container: Container, affinity: Hint) -> None:
        """Play the container's device allocation; resources in the order of their names (Go: any order)."""
        request = ContainerRequest(
            pod=pod.uid,
            name=container.name,
            resources=tuple(sorted(container.limits.items())),
            kind=container.kind,
            affinity=affinity.mask,
        )
        steps = self.manager.allocate(request, active=self.active)
        reply: Sequence[DeviceId] | None = None
        try:
            while True:
                call = steps.send(reply)
                reply = self._answer(call, pod, container) if isinstance(call, PreferredCall) else None
        except StopIteration:
            return


@dataclass(frozen=True, slots=True)
class TopologyManager:
    """The Topology Manager's settings on this node; ``merge`` is ``None`` under policy ``none``."""

    merge: Merge | None
    scope: Scope = Scope.CONTAINER


class Kubelet:
    """The managers of one node. ``cpu`` and ``memory`` are those that the node is configured with.

    ``hints_over_all_nodes``: as kubelets before 1.36 make device hints (``device_hints``).
    """

    def __init__(
        self,
        topology: NumaTopology,
        *,
        topology_manager: TopologyManager,
        cpu: RemovingProvider,
        memory: RemovingProvider,
        devices: DeviceManager,
        answer: Answer,
        hints_over_all_nodes: bool = False,
    ) -> None:
        self.cpu = cpu
        self.memory = memory
        self.devices = DeviceProvider(
            devices, numa_nodes=topology.nodes, answer=answer, over_all_nodes=hints_over_all_nodes
        )
        self._topology_manager = topology_manager
        self._pods: dict[PodUid, Pod] = {}

    @property
    def pods(self) -> Mapping[PodUid, Pod]:
        return self._pods

    def admit(self, pod: Pod) -> Outcome:
        """Admit a pod; a refused one leaves no state behind. ``start`` an admitted one before the next."""
        self.devices.active.add(pod.uid)
        outcome = admit(
            pod,
            (self.devices, self.cpu, self.memory),
            merge=self._topology_manager.merge,
            scope=self._topology_manager.scope,
        )
        if outcome.admitted:
            self._pods[pod.uid] = pod
        else:
            self._forget(pod)
        return outcome

    def start(self, pod: Pod) -> None:
        """Run an admitted pod: its init containers end before its containers start.

        Only the memory manager releases an ended init container's share (``AddContainer``); CPUs and
        devices that no later container of the pod took over stay with the pod until it is deleted.
        """
        for container in pod.init_containers:
            if container.kind is ContainerKind.INIT:
                self.memory.remove(pod.uid, container.name)

    def delete(self, pod: Pod) -> None:
        self._pods.pop(pod.uid, None)
        self._forget(pod)

    def _forget(self, pod: Pod) -> None:
        for container in pod.in_order:
            self.cpu.remove(pod.uid, container.name)
            self.memory.remove(pod.uid, container.name)
        self.devices.active.discard(pod.uid)
        self.devices.manager.release_inactive(self.devices.active)
