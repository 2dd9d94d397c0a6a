"""Reads a node's state once."""

from __future__ import annotations

import os
import re
import resource
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from asyncinotify import Inotify

from numaplace.config.schema import Config
from numaplace.devices.cpu_topology import read_cpu_topology
from numaplace.devices.files import names_in, read_int, read_text
from numaplace.devices.host import read_topology
from numaplace.devices.pci import PCI_ADDRESS, PCI_DEVICES
from numaplace.devices.scan import Scan, Source
from numaplace.doctor.facts import (
    CallFact,
    Facts,
    LimitsFact,
    PodResourcesFact,
    ScanFact,
    SocketFact,
)
from numaplace.doctor.pages import look_at_daemon
from numaplace.doctor.sockets import look_at_folder, look_at_socket
from numaplace.errors import PeerError
from numaplace.kubelet.config.read import USUAL_FILE, KubeletFact, look_at_kubelet
from numaplace.kubelet.plugin.watch import KUBELET_SOCKET
from numaplace.kubelet.podresources.client import PodResources, connect
from numaplace.model.names import DeviceId, ResourceName
from numaplace.threads import in_thread

_NODE = re.compile(r"node\d+", re.ASCII)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What to examine, and with what. ``sources`` has the device source of each configured resource.

    ``kubelet_file`` and ``kubelet_folder`` are the user's paths of the kubelet's configuration.
    ``clock`` is monotonic, in seconds. ``own_procfs`` is that of this process's PID namespace, whatever
    ``config.host.procfs`` shows. ``open_inotify`` raises ``OSError`` when no instance can be created.
    """

    config: Config
    sources: Mapping[ResourceName, Source]
    config_warnings: tuple[str, ...] = ()
    kubelet_file: Path | None = None
    kubelet_folder: Path | None = None
    usual_kubelet_file: Path = USUAL_FILE
    clock: Callable[[], float] = time.perf_counter
    own_procfs: Path = Path("/proc")
    uid: int | None = None
    open_inotify: Callable[[], Inotify] = Inotify
    timeout_seconds: float = 5.0


async def look(reach: Reach) -> Facts:
    """Read everything once; never raises for what the node shows. Blocking reads run in threads."""
    config = reach.config
    folder = config.kubelet.device_plugin_directory
    scans = {
        name: await in_thread(partial(_scan, source, config), name="device scan")
        for name, source in reach.sources.items()
    }
    listen = config.http.listen
    daemon = (
        None
        if listen is None
        else await in_thread(
            partial(look_at_daemon, listen, timeout_seconds=reach.timeout_seconds), name="daemon's pages"
        )
    )
    sysfs = config.host.sysfs
    return Facts(
        config=config,
        config_warnings=reach.config_warnings,
        uid=os.geteuid() if reach.uid is None else reach.uid,
        folder=look_at_folder(folder, procfs=reach.own_procfs),
        registry=look_at_folder(folder.parent / "plugins_registry", procfs=reach.own_procfs),
        kubelet_socket=look_at_socket(folder / KUBELET_SOCKET, procfs=reach.own_procfs),
        pod_resources=await _pod_resources(reach),
        kubelet=await in_thread(partial(_kubelet, reach), name="kubelet configuration"),
        topology=read_topology(sysfs),
        cpu_topology=read_cpu_topology(sysfs, procfs=config.host.procfs),
        numa_shown=any(_NODE.fullmatch(name) for name in names_in(sysfs / "devices/system/node")),
        scans=scans,
        daemon=daemon,
        limits=_limits(reach),
    )


def _kubelet(reach: Reach) -> KubeletFact:
    return look_at_kubelet(
        file=reach.kubelet_file or reach.config.kubelet.config_file,
        folder=reach.kubelet_folder,
        procfs=reach.config.host.procfs,
        socket=reach.config.kubelet.device_plugin_directory / KUBELET_SOCKET,
        usual_file=reach.usual_kubelet_file,
    )


def _scan(source: Source, config: Config) -> ScanFact:
    """Scan for devices; for those without a NUMA node, also read ``numa_node`` in sysfs."""
    scan: Scan = source.scan()
    raw = {}
    for device in scan.devices:
        address = device.id if PCI_ADDRESS.fullmatch(device.id) else device.group
        if not device.nodes and PCI_ADDRESS.fullmatch(address):
            path = config.host.sysfs / PCI_DEVICES / address / "numa_node"
            raw[DeviceId(device.id)] = read_text(path) or "no number"
    return ScanFact(scan, raw)


async def _pod_resources(reach: Reach) -> PodResourcesFact:
    path = reach.config.kubelet.pod_resources_socket
    socket: SocketFact = await in_thread(
        partial(look_at_socket, path, procfs=reach.own_procfs), name="kubelet socket"
    )
    if not socket.listening:
        return PodResourcesFact(socket)
    client = connect(f"unix:{path}", observe=lambda _method, _code: None)
    try:
        return await _calls(client, socket, reach)
    finally:
        await client.close()


async def _calls(client: PodResources, socket: SocketFact, reach: Reach) -> PodResourcesFact:
    """Make four calls: the kubelet lets bursts of 10 through, shared by all clients of the node.

    The first call also connects, so List is timed second.
    """
    limit = reach.timeout_seconds
    allocatable, capacity = await _timed(reach.clock, client.allocatable(timeout_seconds=limit))
    listed, pods = await _timed(reach.clock, client.list(timeout_seconds=limit))
    get, got = None, None
    if pods:
        # For a pod that it has, only a kubelet with Get switched off has no answer.
        pod = pods[0]
        get, got = await _timed(reach.clock, client.get(pod.namespace, pod.name, timeout_seconds=limit))
    return PodResourcesFact(
        socket, listed, allocatable, get, got=got is not None, pods=pods, capacity=capacity
    )


async def _timed(clock: Callable[[], float], call: Awaitable[_T]) -> tuple[CallFact, _T | None]:
    start = clock()
    try:
        answer = await call
    except PeerError as error:
        return CallFact(error.code, clock() - start, str(error)), None
    return CallFact("OK", clock() - start), answer


def _limits(reach: Reach) -> LimitsFact:
    base = reach.own_procfs / "sys/fs/inotify"
    error = ""
    try:
        with reach.open_inotify():
            pass
    except OSError as exc:
        error = exc.strerror or str(exc)
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return LimitsFact(
        inotify_instances=read_int(base / "max_user_instances"),
        inotify_watches=read_int(base / "max_user_watches"),
        inotify_error=error,
        open_files=None if soft == resource.RLIM_INFINITY else soft,
    )
