"""Where pods run. Flows and tests know only ``Backend``; the simulated node is one of them."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import grpc

from harness import podresources
from harness.cri import CreatedContainer, StubRuntime
from harness.kubelet import NODE_NAME, Kubelet, KubeletOptions
from harness.logs import LogKeeper
from harness.podresources import Held
from harness.pods import Pod, StaticPodFolder
from harness.topology import SimulatedTopology
from harness.waiters import until


@dataclass(frozen=True, slots=True)
class Rejected:
    """Why the kubelet refused a pod."""

    reason: str
    message: str


class Backend(Protocol):
    """A node that pods can be put on, by the names that the test gave them."""

    def create(self, pod: Pod) -> None:
        """Hand the pod over; do not wait."""

    def delete(self, name: str) -> None:
        """Ask for the pod's end; do not wait."""

    def running(self, name: str) -> frozenset[str]:
        """The names of the pod's running containers."""

    def rejected(self, name: str) -> Rejected | None:
        """Why the pod was refused, if it was."""

    def held(self) -> Mapping[str, Mapping[str, Held]]:
        """Pod name -> container name -> what PodResources says it holds."""

    def given(self, pod: str, container: str) -> CreatedContainer:
        """What the container runtime was last asked to give to the container."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What ``run.sh`` has built."""

    kubelet: Path


class SimulatedNode:
    """A real kubelet with static pods and a stub runtime."""

    def __init__(self, kubelet: Kubelet, runtime: StubRuntime, *, topology: SimulatedTopology, folder: Path):
        self.kubelet = kubelet
        self.runtime = runtime
        self.topology = topology
        self.folder = folder
        self._pods = StaticPodFolder(kubelet.manifests)
        self._created: set[str] = set()
        self._ever: set[str] = set()

    @property
    def policy(self) -> str:
        """The kubelet's Topology Manager policy."""
        return self.kubelet.options.topology_manager_policy

    def create(self, pod: Pod) -> None:
        if pod.name in self._ever:
            raise ValueError(f"pod name {pod.name} was used before: see harness.pods.unique")
        self._ever.add(pod.name)
        self._created.add(pod.name)
        self._pods.create(pod)

    def delete(self, name: str) -> None:
        self._created.discard(name)
        self._pods.delete(name)

    def running(self, name: str) -> frozenset[str]:
        return self.runtime.running(_full(name))

    def rejected(self, name: str) -> Rejected | None:
        return _rejection(self.kubelet.pods().get(_full(name), {}))

    def all_rejected(self) -> dict[str, Rejected]:
        """Pod name -> why the kubelet refused it, of those that it refused."""
        found = {name: _rejection(status) for name, status in self.kubelet.pods().items()}
        return {_short(name): refusal for name, refusal in found.items() if refusal is not None}

    def all_running(self) -> dict[str, frozenset[str]]:
        """Pod name -> the names of its running containers."""
        return {_short(name): containers for name, containers in self.runtime.all_running().items()}

    def known(self) -> frozenset[str]:
        """The pods that the kubelet has, also those that are about to end."""
        listed = map(_short, podresources.list_pods(self.kubelet.pod_resources_socket))
        return frozenset(map(_short, self.kubelet.pods())) | frozenset(listed)

    def held(self) -> dict[str, dict[str, Held]]:
        pods = podresources.list_pods(self.kubelet.pod_resources_socket)
        return {_short(name): held for name, held in pods.items()}

    def given(self, pod: str, container: str) -> CreatedContainer:
        return self.runtime.created(_full(pod), container)[-1]

    def times_created(self, pod: str, container: str) -> int:
        return len(self.runtime.created(_full(pod), container))

    def allocatable(self) -> dict[str, frozenset[str]]:
        """The healthy devices that the kubelet knows, per resource."""
        return podresources.allocatable_devices(self.kubelet.pod_resources_socket)

    def wait_for_devices(self, resource: str, count: int) -> None:
        """Wait until the kubelet has this many healthy devices of the resource."""
        until(
            lambda: len(self.allocatable().get(resource, ())) == count,
            f"{count} devices of {resource} at the kubelet",
            detail=self.allocatable,
        )

    def clear(self, *, but: Collection[str] = ()) -> None:
        """Delete every pod, but for some, and wait until the kubelet has forgotten them."""
        for name in self._created.difference(but):
            self.delete(name)
        until(
            lambda: self._has_only(but), "the kubelet to forget all pods", detail=lambda: sorted(self.held())
        )

    def _has_only(self, names: Collection[str]) -> bool:
        try:
            return self.known() | self.all_running().keys() <= frozenset(names)
        except (grpc.RpcError, OSError):
            return False


def _full(pod: str) -> str:
    return f"{pod}-{NODE_NAME}"


def _short(name: str) -> str:
    return name.removesuffix(f"-{NODE_NAME}")


def _rejection(status: Mapping[str, object]) -> Rejected | None:
    if status.get("phase") != "Failed":
        return None
    return Rejected(str(status.get("reason")), str(status.get("message")))


_numbers = itertools.count(1)


@contextlib.contextmanager
def simulated_node(
    tools: Tools, scratch: Path, *, topology: SimulatedTopology, options: KubeletOptions, logs: LogKeeper
) -> Iterator[SimulatedNode]:
    """Start a node for a group of tests; at the end nothing of it is left."""
    folder = scratch / str(next(_numbers))
    folder.mkdir()
    runtime = StubRuntime(folder / "cri.sock")
    kubelet = Kubelet(
        tools.kubelet, folder, topology=topology, runtime_socket=runtime.socket, options=options
    )
    with logs.watching("kubelet", kubelet.log):
        try:
            kubelet.start()
            yield SimulatedNode(kubelet, runtime, topology=topology, folder=folder)
        finally:
            kubelet.kill()
            runtime.stop()
