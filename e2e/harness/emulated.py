"""The package's kubelet emulator, driven from synchronous tests by an event loop in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from numaplace.kubelet.emulator import Admission, ContainerSpec, EmulatedNode, KubeletEmulator, PodSpec
from numaplace.model.names import ResourceName
from numaplace.model.topology import NumaTopology

from harness.pods import Container, Pod

T = TypeVar("T")

LIMIT_SECONDS = 20.0


class EmulatedKubelet:
    """The emulator's calls, made from another thread than its loop's."""

    def __init__(self, emulator: KubeletEmulator, loop: asyncio.AbstractEventLoop) -> None:
        self._emulator = emulator
        self._loop = loop
        self.device_plugins = emulator.device_plugins_dir

    def wait_for_devices(self, resource: str, count: int) -> None:
        self._run(self._emulator.wait_registered(ResourceName(resource), count=count))

    def admit(self, pod: Pod, masks: Mapping[tuple[str, str], int | None]) -> Admission:
        """Admit a pod; ``masks`` holds the Topology Manager's mask per (pod, container)."""
        spec = PodSpec(
            namespace="default",
            name=pod.name,
            containers=tuple(map(_container, pod.containers)),
            init_containers=tuple(map(_container, pod.init_containers)),
        )
        affinity = {container: mask for (name, container), mask in masks.items() if name == pod.name}
        admission = self._run(self._emulator.admit(spec, affinity))
        assert admission.admitted, admission
        return admission

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(LIMIT_SECONDS)


def _container(one: Container) -> ContainerSpec:
    return ContainerSpec(
        name=one.name,
        devices={ResourceName(resource): int(amount) for resource, amount in one.limits.items()},
        restart_policy="Always" if one.sidecar else "",
    )


@contextlib.contextmanager
def emulated_kubelet(folder: Path, numa_nodes: int) -> Iterator[EmulatedKubelet]:
    """Run an emulated kubelet with its sockets under ``folder``."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="emulator")
    thread.start()
    try:
        machine = EmulatedNode(NumaTopology(nodes=tuple(range(numa_nodes))))
        emulator = KubeletEmulator(folder, machine)
        asyncio.run_coroutine_threadsafe(emulator.start(), loop).result(LIMIT_SECONDS)
        yield EmulatedKubelet(emulator, loop)
        asyncio.run_coroutine_threadsafe(emulator.stop(), loop).result(LIMIT_SECONDS)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
