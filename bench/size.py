"""The idle daemon: memory, time to registrations, CPU; beside a process with only its libraries."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from statistics import median

from numaplace.devices.fake import FakeHost

from bench.machine import Machine, Request
from bench.parts import Child, Daemon, PodResources, channel, cpu_seconds, rss_mib
from bench.stats import Row

NODES = 4
LISTED = Request(nodes=NODES, devices_per_node=64, pods=110, devices_per_pod=2)
KERNEL_VFS, VFIO_VFS, GPUS = "example.com/vf_kernel", "example.com/vf_dpdk", "nvidia.com/gpu"
RESOURCES = (KERNEL_VFS, VFIO_VFS, GPUS)
STARTS = 3
SETTLE_SECONDS, IDLE_SECONDS = 3.0, 30.0
LISTINGS = 8

MAX_RSS_MIB, MAX_START_SECONDS, MAX_IDLE_PERCENT = 60.0, 1.5, 0.5


def measure_size(folder: Path) -> list[Row]:
    """Return the rows of a daemon with 3 resources and 128 devices, all settings at their defaults."""
    folder.mkdir()
    config = host_of(folder)
    starts: list[float] = []
    bare_starts: list[float] = []
    for number in range(STARTS):
        with contextlib.ExitStack() as stack:
            kubelet = Child("kubelet", folder, *RESOURCES)
            stack.callback(kubelet.stop)
            kubelet.fact()
            pod_resources = PodResources(stack.enter_context(channel(folder / "list.sock")))
            machine = Machine(LISTED)
            pod_resources.set_allocatable(machine.allocatable())
            pod_resources.show(*(machine.listing() for _ in range(LISTINGS)))
            bare = Child("reference", folder)
            stack.callback(bare.stop)
            bare_starts.append(_seconds(bare.fact()["ready"]) - bare.spawned)
            daemon = Daemon(folder, config)
            stack.callback(daemon.stop)
            starts.append(_seconds(kubelet.fact(hint=daemon.log)["registered"]) - daemon.spawned)
            if number == STARTS - 1:
                time.sleep(SETTLE_SECONDS)
                ours, base = _idle(daemon.pid, bare.pid)
                rss, bare_rss = rss_mib(daemon.pid), rss_mib(bare.pid)
    return [
        Row("resident memory after start", "MiB", rss, bare_rss, max_value=MAX_RSS_MIB),
        Row("start to registered", "s", median(starts), median(bare_starts), max_value=MAX_START_SECONDS),
        Row("idle CPU, of one core", "%", ours, base, max_value=MAX_IDLE_PERCENT),
    ]


def _idle(*pids: int) -> list[float]:
    """Return the CPU of each process over the idle time, in percent of one core."""
    started = time.monotonic()
    before = [cpu_seconds(pid) for pid in pids]
    time.sleep(IDLE_SECONDS)
    after = [cpu_seconds(pid) for pid in pids]
    elapsed = time.monotonic() - started
    return [100 * (late - early) / elapsed for early, late in zip(before, after, strict=True)]


def _seconds(value: object) -> float:
    assert isinstance(value, float)
    return value


def host_of(folder: Path) -> dict[str, object]:
    """Write a host with 64 VFs of kernel drivers, 48 of vfio-pci and 16 GPUs; return the configuration."""
    host = FakeHost(folder / "host")
    for node in range(NODES):
        host.numa_node(node, cpus=f"{node * 32}-{node * 32 + 31}", memory_bytes=128 << 30)
        bus = 0x10 + 0x20 * node
        host.pf(f"0000:{bus:02x}:00.0", f"ens{node}f0", numa=node, vfs=16)
        host.pf(f"0000:{bus + 4:02x}:00.0", f"ens{node}f1", numa=node, vfs=12, vf_driver="vfio-pci")
        for index in range(4):
            host.gpu("nvidia", f"0000:{bus + 8 + index:02x}:00.0", numa=node)
    roots = host.roots
    return {
        "strategy": "least-allocated",
        "resources": [
            {"name": KERNEL_VFS, "sriov": {"drivers": ["iavf"]}},
            {"name": VFIO_VFS, "sriov": {"drivers": ["vfio-pci"]}},
            {"name": GPUS, "gpu": {"vendor": "nvidia"}},
        ],
        "host": {"sysfs": str(roots.sysfs), "devfs": str(roots.devfs), "procfs": str(roots.procfs)},
    }
