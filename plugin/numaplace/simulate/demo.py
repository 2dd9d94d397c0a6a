"""``numaplace demo``: the same pods under each setting, on an emulated kubelet with the real daemon.

What is real: the daemon (a child process), gRPC on unix sockets, the sources reading sysfs and procfs trees,
the kubelet's allocation steps for Topology Manager policy ``none``, and the result, which is read back
through PodResources List. What is not: the machine, and chance, which has a seed.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from numaplace.errors import PeerError
from numaplace.kubelet.emulator import Admission, Call, KubeletEmulator
from numaplace.kubelet.podresources.client import PodResources, connect
from numaplace.model.names import PodKey, ResourceName
from numaplace.simulate.process import DaemonProcess, LogLine, running_daemon
from numaplace.simulate.story import (
    ARRIVING,
    GPU,
    PER_NODE,
    RUNNING,
    SETTINGS,
    VF,
    DemoPod,
    DemoSetting,
    build_host,
    configuration,
    machine,
)

START_SECONDS = 60.0
"""Only a daemon that hangs takes this long: an exit is noticed at once."""
CALL_SECONDS = 5.0
RUNS_AT_A_TIME = 2
"""A run mostly waits for its daemon's start, which keeps one core busy."""

SEED = 2
NOT_ASKED = "the kubelet picks at random"

_Held = Counter[tuple[ResourceName, int, str]]
"""How many devices of a resource and NUMA node a pod holds, by its name."""


@dataclass(frozen=True, slots=True)
class Landing:
    """Where one pod landed, read through PodResources. ``why`` is the reason for each resource."""

    pod: DemoPod
    nodes: tuple[int, ...]
    devices: Mapping[ResourceName, tuple[str, ...]]
    why: Mapping[ResourceName, str]


@dataclass(frozen=True, slots=True)
class DemoRun:
    """The pods that arrived under one setting, in their order."""

    setting: DemoSetting
    landings: tuple[Landing, ...]


async def run_demo(settings: Sequence[DemoSetting] = SETTINGS) -> AsyncGenerator[DemoRun, None]:
    """Yield one run for each setting, in their order; ``PeerError`` if a daemon does not start.

    Close the generator (``contextlib.aclosing``): that ends the remaining runs.
    """
    places = asyncio.Semaphore(RUNS_AT_A_TIME)
    runs = [asyncio.create_task(_run_in_turn(setting, places)) for setting in settings]
    try:
        for run in runs:
            yield await run
    finally:
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)


async def _run_in_turn(setting: DemoSetting, places: asyncio.Semaphore) -> DemoRun:
    async with places:
        with tempfile.TemporaryDirectory(prefix="numaplace-") as name:
            return await _run(setting, Path(name))


async def _run(setting: DemoSetting, root: Path) -> DemoRun:
    host = build_host(root / "host")
    config = root / "config.yaml"
    config.write_text(yaml.safe_dump(configuration(setting, root=root, host=host)))
    emulator = KubeletEmulator(root, machine(), seed=SEED, ask_plugins=setting.strategy is not None)
    async with emulator as kubelet, running_daemon(config) as daemon:
        client = connect(f"unix:{kubelet.pod_resources_socket}", observe=lambda *_: None)
        try:
            for resource, count in PER_NODE.items():
                await _registered(kubelet, daemon, resource, count=2 * count)
            for pod in RUNNING:
                await kubelet.admit(pod.spec, affinity=1 << (pod.running_on or 0))
            landings = [await _land(pod, kubelet, daemon, client=client) for pod in ARRIVING]
        finally:
            await client.close()
    return DemoRun(setting, tuple(landings))


async def _registered(
    kubelet: KubeletEmulator, daemon: DaemonProcess, resource: ResourceName, *, count: int
) -> None:
    """Wait for the registration; ``PeerError`` when that takes too long, and at once when the daemon ends."""
    registered = asyncio.create_task(
        kubelet.wait_registered(resource, count=count, timeout_seconds=START_SECONDS)
    )
    ended = asyncio.create_task(daemon.wait_line(lambda _: False, timeout_seconds=None))
    try:
        await asyncio.wait({registered, ended}, return_when=asyncio.FIRST_COMPLETED)
        if registered.done():
            await registered
        else:
            await ended
    except TimeoutError as error:
        raise PeerError(f"the daemon did not register: {error}; {' '.join(daemon.noise)}") from error
    finally:
        registered.cancel()
        ended.cancel()
        await asyncio.gather(registered, ended, return_exceptions=True)


async def _land(
    pod: DemoPod, kubelet: KubeletEmulator, daemon: DaemonProcess, *, client: PodResources
) -> Landing:
    held = await _held(client)
    admission = await kubelet.admit(pod.spec, resource_order=(GPU, VF))
    if not admission.admitted:
        raise PeerError(f"pod {pod.name} was rejected: {admission.message}")
    why = {
        resource: reason if reason == NOT_ASKED else reason + _filled(held, resource)
        for resource in pod.devices
        for reason in (await reason_of(resource, admission, daemon),)
    }
    nodes, devices = await _read_back(client, pod.spec.key)
    return Landing(pod, nodes, devices, why)


def _filled(held: _Held, resource: ResourceName) -> str:
    """Name the pods that hold everything of a NUMA node; empty if no NUMA node is full."""
    texts = []
    for node in (0, 1):
        counts = {pod.name: held[resource, node, pod.name] for pod in (*RUNNING, *ARRIVING)}
        if sum(counts.values()) == PER_NODE[resource]:
            names = ", ".join(name for name, count in counts.items() if count)
            texts.append(f": {names} fill NUMA {node}")
    return "".join(texts)


async def reason_of(resource: ResourceName, admission: Admission, daemon: DaemonProcess) -> str:
    """Return the daemon's reason for the pod's devices, from its log, which is written after the answer."""
    granted = {one for devices in admission.containers.values() for one in devices.get(resource, ())}

    def asked_about(call: Call) -> bool:
        return call.method == "GetPreferredAllocation" and call.resource == resource

    def decision(line: LogLine) -> bool:
        ids = line.get("ids")
        about = (line.get("event"), line.get("resource"))
        return about == ("decision", resource) and isinstance(ids, list) and set(ids) == granted

    if not any(map(asked_about, admission.calls)):
        return NOT_ASKED
    line = await daemon.wait_line(decision, timeout_seconds=CALL_SECONDS)
    return str(line["why"])


async def _held(client: PodResources) -> _Held:
    held: _Held = Counter()
    for pod in await client.list(timeout_seconds=CALL_SECONDS):
        for block in (block for container in pod.containers for block in container.devices):
            held.update({(block.resource, node, pod.key[1]): len(block.ids) for node in block.nodes})
    return held


async def _read_back(
    client: PodResources, key: PodKey
) -> tuple[tuple[int, ...], dict[ResourceName, tuple[str, ...]]]:
    pods = {pod.key: pod for pod in await client.list(timeout_seconds=CALL_SECONDS)}
    nodes: set[int] = set()
    devices: dict[ResourceName, tuple[str, ...]] = {}
    for container in pods[key].containers:
        for block in container.devices:
            nodes.update(block.nodes)
            devices[block.resource] = tuple(sorted((*devices.get(block.resource, ()), *block.ids)))
    return tuple(sorted(nodes)), devices
