"""A stub container runtime: it runs nothing, remembers everything.

The kubelet speaks CRI v1 to it over a unix socket. It lives in the test process, so it survives a kubelet
restart as a real runtime does. Calls that it does not know fail with UNIMPLEMENTED: an "older runtime".
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Mapping
from concurrent import futures
from dataclasses import dataclass, field
from pathlib import Path

import cri_pb2 as pb
import cri_pb2_grpc as rpc
import grpc

from harness.cri_images import StubImages
from harness.pods import EXIT_COMMAND, IMAGE


@dataclass(frozen=True, slots=True)
class CreatedContainer:
    """What the kubelet asked the runtime to give to one container."""

    pod: str
    name: str
    env: Mapping[str, str]
    devices: tuple[str, ...]
    cdi_devices: tuple[str, ...]
    cpuset: str


@dataclass(slots=True)
class _Sandbox:
    config: pb.PodSandboxConfig
    created_at: int
    state: int = pb.SANDBOX_READY


@dataclass(slots=True)
class _Container:
    config: pb.ContainerConfig
    sandbox_id: str
    pod: str
    log_directory: str
    created_at: int
    state: int = pb.CONTAINER_CREATED
    started_at: int = 0
    finished_at: int = 0
    exit_code: int = 0


@dataclass(slots=True)
class _Book:
    """Everything the runtime knows, behind one lock."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    sandboxes: dict[str, _Sandbox] = field(default_factory=dict)
    containers: dict[str, _Container] = field(default_factory=dict)
    created: list[CreatedContainer] = field(default_factory=list)


class StubRuntime:
    """The server, and what tests may ask it."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self._book = _Book()
        self._server = grpc.server(futures.ThreadPoolExecutor(8))
        rpc.add_RuntimeServiceServicer_to_server(_Runtime(self._book), self._server)
        rpc.add_ImageServiceServicer_to_server(StubImages(), self._server)
        self._server.add_insecure_port(f"unix:{socket}")
        self._server.start()

    def stop(self) -> None:
        self._server.stop(grace=None).wait()

    def created(self, pod: str, container: str) -> tuple[CreatedContainer, ...]:
        """Every creation of this container, oldest first."""
        with self._book.lock:
            return tuple(one for one in self._book.created if (one.pod, one.name) == (pod, container))

    def running(self, pod: str) -> frozenset[str]:
        """The names of the pod's containers that run now."""
        with self._book.lock:
            return frozenset(
                one.config.metadata.name
                for one in self._book.containers.values()
                if one.pod == pod and one.state == pb.CONTAINER_RUNNING
            )

    def all_running(self) -> dict[str, frozenset[str]]:
        """Pod name -> the names of its containers that run now; pods without any are left out."""
        found: dict[str, set[str]] = {}
        with self._book.lock:
            for one in self._book.containers.values():
                if one.state == pb.CONTAINER_RUNNING:
                    found.setdefault(one.pod, set()).add(one.config.metadata.name)
        return {pod: frozenset(names) for pod, names in found.items()}


def _matches(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in selector.items())


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


class _Runtime(rpc.RuntimeServiceServicer):
    def __init__(self, book: _Book) -> None:
        self._book = book

    # --- the runtime itself ---

    def Version(self, request, context):  # noqa: N802
        return pb.VersionResponse(
            version="0.1.0", runtime_name="stub", runtime_version="2.1.0", runtime_api_version="v1"
        )

    def Status(self, request, context):  # noqa: N802
        ready = [pb.RuntimeCondition(type=name, status=True) for name in ("RuntimeReady", "NetworkReady")]
        return pb.StatusResponse(status=pb.RuntimeStatus(conditions=ready))

    def RuntimeConfig(self, request, context):  # noqa: N802
        return pb.RuntimeConfigResponse(linux=pb.LinuxRuntimeConfiguration(cgroup_driver=pb.CGROUPFS))

    def UpdateRuntimeConfig(self, request, context):  # noqa: N802
        return pb.UpdateRuntimeConfigResponse()

    # --- sandboxes ---

    def RunPodSandbox(self, request, context):  # noqa: N802
        sandbox_id = uuid.uuid4().hex
        with self._book.lock:
            self._book.sandboxes[sandbox_id] = _Sandbox(request.config, time.time_ns())
        return pb.RunPodSandboxResponse(pod_sandbox_id=sandbox_id)

    def StopPodSandbox(self, request, context):  # noqa: N802
        with self._book.lock:
            if sandbox := self._book.sandboxes.get(request.pod_sandbox_id):
                sandbox.state = pb.SANDBOX_NOTREADY
                for one in self._book.containers.values():
                    if one.sandbox_id == request.pod_sandbox_id:
                        _finish(one)
        return pb.StopPodSandboxResponse()

    def RemovePodSandbox(self, request, context):  # noqa: N802
        with self._book.lock:
            self._book.sandboxes.pop(request.pod_sandbox_id, None)
        return pb.RemovePodSandboxResponse()

    def PodSandboxStatus(self, request, context):  # noqa: N802
        with self._book.lock:
            sandbox = self._book.sandboxes.get(request.pod_sandbox_id)
        if sandbox is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such sandbox")
        config = sandbox.config
        options = config.linux.security_context.namespace_options
        return pb.PodSandboxStatusResponse(
            status=pb.PodSandboxStatus(
                id=request.pod_sandbox_id,
                metadata=config.metadata,
                state=sandbox.state,
                created_at=sandbox.created_at,
                network=pb.PodSandboxNetworkStatus(ip="192.0.2.1"),
                linux=pb.LinuxPodSandboxStatus(namespaces=pb.Namespace(options=options)),
                labels=config.labels,
                annotations=config.annotations,
            )
        )

    def ListPodSandbox(self, request, context):  # noqa: N802
        wanted = request.filter
        with self._book.lock:
            items = [
                pb.PodSandbox(
                    id=sandbox_id,
                    metadata=one.config.metadata,
                    state=one.state,
                    created_at=one.created_at,
                    labels=one.config.labels,
                    annotations=one.config.annotations,
                )
                for sandbox_id, one in self._book.sandboxes.items()
                if wanted.id in ("", sandbox_id)
                and not (wanted.HasField("state") and wanted.state.state != one.state)
                and _matches(one.config.labels, wanted.label_selector)
            ]
        return pb.ListPodSandboxResponse(items=items)

    # --- containers ---

    def CreateContainer(self, request, context):  # noqa: N802
        container_id = uuid.uuid4().hex
        config = request.config
        with self._book.lock:
            sandbox = self._book.sandboxes[request.pod_sandbox_id].config
            self._book.containers[container_id] = _Container(
                config,
                request.pod_sandbox_id,
                pod=sandbox.metadata.name,
                log_directory=sandbox.log_directory,
                created_at=time.time_ns(),
            )
            self._book.created.append(
                CreatedContainer(
                    pod=sandbox.metadata.name,
                    name=config.metadata.name,
                    env={entry.key: _text(entry.value) for entry in config.envs},
                    devices=tuple(device.host_path for device in config.devices),
                    cdi_devices=tuple(device.name for device in config.CDI_devices),
                    cpuset=config.linux.resources.cpuset_cpus,
                )
            )
        return pb.CreateContainerResponse(container_id=container_id)

    def StartContainer(self, request, context):  # noqa: N802
        with self._book.lock:
            one = self._book.containers[request.container_id]
            one.state, one.started_at = pb.CONTAINER_RUNNING, time.time_ns()
            if list(one.config.command) == [EXIT_COMMAND]:
                _finish(one, exit_code=0)
        return pb.StartContainerResponse()

    def StopContainer(self, request, context):  # noqa: N802
        with self._book.lock:
            if one := self._book.containers.get(request.container_id):
                _finish(one)
        return pb.StopContainerResponse()

    def RemoveContainer(self, request, context):  # noqa: N802
        with self._book.lock:
            self._book.containers.pop(request.container_id, None)
        return pb.RemoveContainerResponse()

    def ListContainers(self, request, context):  # noqa: N802
        wanted = request.filter
        with self._book.lock:
            containers = [
                pb.Container(
                    id=container_id,
                    pod_sandbox_id=one.sandbox_id,
                    metadata=one.config.metadata,
                    image=one.config.image,
                    image_ref=IMAGE,
                    state=one.state,
                    created_at=one.created_at,
                    labels=one.config.labels,
                    annotations=one.config.annotations,
                )
                for container_id, one in self._book.containers.items()
                if wanted.id in ("", container_id)
                and wanted.pod_sandbox_id in ("", one.sandbox_id)
                and not (wanted.HasField("state") and wanted.state.state != one.state)
                and _matches(one.config.labels, wanted.label_selector)
            ]
        return pb.ListContainersResponse(containers=containers)

    def ContainerStatus(self, request, context):  # noqa: N802
        with self._book.lock:
            one = self._book.containers.get(request.container_id)
            if one is None:
                context.abort(grpc.StatusCode.NOT_FOUND, "no such container")
            return pb.ContainerStatusResponse(
                status=pb.ContainerStatus(
                    id=request.container_id,
                    metadata=one.config.metadata,
                    state=one.state,
                    created_at=one.created_at,
                    started_at=one.started_at,
                    finished_at=one.finished_at,
                    exit_code=one.exit_code,
                    image=one.config.image,
                    image_ref=IMAGE,
                    reason="Completed" if one.state == pb.CONTAINER_EXITED and not one.exit_code else "",
                    labels=one.config.labels,
                    annotations=one.config.annotations,
                    # The kubelet deletes this file together with the container: it must be a path of its own.
                    log_path=f"{one.log_directory}/{one.config.log_path}",
                )
            )

    def UpdateContainerResources(self, request, context):  # noqa: N802
        return pb.UpdateContainerResourcesResponse()

    def ReopenContainerLog(self, request, context):  # noqa: N802
        return pb.ReopenContainerLogResponse()

    def ListContainerStats(self, request, context):  # noqa: N802
        return pb.ListContainerStatsResponse()

    def ListPodSandboxStats(self, request, context):  # noqa: N802
        return pb.ListPodSandboxStatsResponse()


def _finish(container: _Container, *, exit_code: int = 137) -> None:
    if container.state != pb.CONTAINER_EXITED:
        container.state, container.finished_at = pb.CONTAINER_EXITED, time.time_ns()
        container.exit_code = exit_code
