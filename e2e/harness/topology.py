"""The simulated node: NUMA nodes, CPUs and memory, as the files that the kubelet reads.

The kubelet's machine information (cadvisor) comes from ``/sys/devices/system/{node,cpu}``,
``/sys/kernel/mm/hugepages``, ``/proc/meminfo`` and ``/proc/cpuinfo``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

LOCAL_DISTANCE = 10
REMOTE_DISTANCE = 20

_HUGEPAGE_BYTES = 2 << 20

# What a kubelet sets at start. Shown to it as already set, it leaves the machine's own values alone.
KERNEL_TUNABLES: Mapping[str, int] = {
    "kernel/keys/root_maxbytes": 25_000_000,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
}


@dataclass(frozen=True, slots=True)
class NumaNode:
    """One NUMA node. Each CPU is a core of its own; each node is a socket of its own.

    ``hugepages_bytes`` are in pages of 2 MiB, and part of ``memory_bytes``.
    """

    id: int
    cpus: tuple[int, ...]
    memory_bytes: int
    hugepages_bytes: int = 0

    @property
    def hugepages(self) -> int:
        return self.hugepages_bytes // _HUGEPAGE_BYTES


@dataclass(frozen=True, slots=True)
class SimulatedTopology:
    """All NUMA nodes of the node, ids ascending."""

    nodes: tuple[NumaNode, ...]

    @classmethod
    def uniform(
        cls, count: int, *, cpus_each: int = 4, memory_gib_each: int = 32, hugepages_gib_each: int = 0
    ) -> SimulatedTopology:
        """Return ``count`` equal NUMA nodes with consecutive CPU numbers."""
        return cls(
            tuple(
                NumaNode(
                    n,
                    tuple(range(n * cpus_each, (n + 1) * cpus_each)),
                    memory_gib_each << 30,
                    hugepages_gib_each << 30,
                )
                for n in range(count)
            )
        )

    @property
    def node_ids(self) -> tuple[int, ...]:
        return tuple(node.id for node in self.nodes)

    def node_of_cpu(self) -> dict[int, int]:
        return {cpu: node.id for node in self.nodes for cpu in node.cpus}

    def write(self, root: Path) -> None:
        """Write ``root``/sys and ``root``/proc."""
        system = root / "sys/devices/system"
        for node in self.nodes:
            self._write_node(system, node)
        _write(system / "node/online", _list(self.node_ids))
        _write(system / "node/possible", _list(self.node_ids))
        cpus = _list(self.node_of_cpu())
        for name in ("online", "possible", "present"):
            _write(system / "cpu" / name, cpus)
        pages = sum(node.hugepages for node in self.nodes)
        _write(root / "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", pages)
        total_kib = sum(node.memory_bytes for node in self.nodes) // 1024
        _write(
            root / "proc/meminfo",
            "".join(f"{key}: {total_kib} kB\n" for key in ("MemTotal", "MemFree", "MemAvailable"))
            + "SwapTotal: 0 kB\nSwapFree: 0 kB",
        )
        _write(root / "proc/cpuinfo", "\n\n".join(map(_cpuinfo, self.nodes)))
        for name, value in KERNEL_TUNABLES.items():
            _write(root / "proc/sys" / name, value)

    def _write_node(self, system: Path, node: NumaNode) -> None:
        folder = system / f"node/node{node.id}"
        kib = node.memory_bytes // 1024
        _write(folder / "meminfo", f"Node {node.id} MemTotal: {kib} kB\nNode {node.id} MemFree: {kib} kB")
        distances = (LOCAL_DISTANCE if other == node else REMOTE_DISTANCE for other in self.nodes)
        _write(folder / "distance", " ".join(map(str, distances)))
        _write(folder / "cpulist", _list(node.cpus))
        _write(folder / "hugepages/hugepages-2048kB/nr_hugepages", node.hugepages)
        for cpu in node.cpus:
            for base in (folder / f"cpu{cpu}", system / f"cpu/cpu{cpu}"):
                _write(base / "online", 1)
                _write(base / "topology/core_id", cpu)
                _write(base / "topology/physical_package_id", node.id)
                _write(base / "topology/die_id", 0)
                _write(base / "topology/thread_siblings_list", cpu)


def _cpuinfo(node: NumaNode) -> str:
    entry = "processor : {cpu}\nphysical id : {node}\ncore id : {cpu}\ncpu MHz : 2000.000"
    return "\n\n".join(entry.format(cpu=cpu, node=node.id) for cpu in node.cpus)


def _list(numbers: Iterable[int]) -> str:
    return ",".join(map(str, sorted(numbers)))


def _write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{content}\n")
