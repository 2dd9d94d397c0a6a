"""Sockets, cores and last-level caches of the host's CPUs, as the kubelet has them from cAdvisor.

Reimplements cAdvisor ``utils/sysinfo`` (``GetNodesInfo``, ``getCoresInfo``, ``addCacheInfo``), ``machine``
(``GetSockets``) and kubelet ``cpumanager/topology`` (``Discover``), quirks included: what matters is not the
machine but what the kubelet sees.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from numaplace.devices.files import exists, names_in, read_int, read_text
from numaplace.devices.host import parse_cpulist
from numaplace.errors import InputError
from numaplace.managers.cpu.topology import CpuDetail, CpuTopology

_NODE = re.compile(r"node(\d+)", re.ASCII)
_CPU = re.compile(r"cpu(\d+)", re.ASCII)
_PHYSICAL_ID = re.compile(r"^physical id\s*:\s*([0-9]+)$", re.ASCII | re.MULTILINE)
_SIZE = re.compile(r"\d+K", re.ASCII)
_SHARED_LEVEL = 3


class _OddError(Exception):
    """A file holds what cAdvisor fails on; a kubelet does not start on such a machine."""


@dataclass(slots=True)
class _Core:
    socket: int
    threads: list[int] = field(default_factory=list)
    uncore_cache: int | None = None


@dataclass(frozen=True, slots=True)
class _Cache:
    id: int
    level: int
    cpus: int


def read_cpu_topology(sysfs: Path, *, procfs: Path | None = None) -> CpuTopology | None:
    """Return the CPUs that are online; ``None`` where a kubelet would not find any. Never raises.

    Without NUMA nodes in ``sysfs`` every socket is one, as it is for the kubelet. The number of sockets is
    that of ``procfs``/cpuinfo where that names any.
    """
    system = sysfs / "devices/system"
    cpuinfo = "" if procfs is None else read_text(procfs / "cpuinfo")
    try:
        nodes = _cores_by_node(system)
        details = {
            cpu: CpuDetail(
                numa=node,
                socket=core.socket,
                core=min(core.threads),
                uncore_cache=core.socket if core.uncore_cache is None else core.uncore_cache,
            )
            for node, cores in nodes.items()
            for core in cores
            for cpu in core.threads
        }
        return CpuTopology.of(
            details,
            num_cpus=_count_cpus(system, nodes),
            num_cores=sum(map(len, nodes.values())),
            num_sockets=len(set(_PHYSICAL_ID.findall(cpuinfo))) or _count_sockets(system / "cpu"),
        )
    except (_OddError, InputError, ValueError):  # a node id that no affinity mask can hold is a ValueError
        return None


def _count_cpus(system: Path, nodes: Mapping[int, Sequence[_Core]]) -> int:
    """Return the number of CPUs; where the kernel shows no NUMA nodes, those that are offline count, too."""
    if any(_numbered(_NODE, system / "node")):
        return sum(len(core.threads) for cores in nodes.values() for core in cores)
    return sum(1 for _ in _numbered(_CPU, system / "cpu"))


def _cores_by_node(system: Path) -> dict[int, list[_Core]]:
    """Return the cores of each NUMA node, or of each socket where the kernel shows no NUMA nodes."""
    folders = {node: list(_numbered(_CPU, path)) for node, path in _numbered(_NODE, system / "node")}
    if not folders:
        for cpu, path in _numbered(_CPU, system / "cpu"):
            socket = _topology(path, "physical_package_id")
            if socket is not None:
                folders.setdefault(socket, []).append((cpu, path))
    is_online = _Online(system / "cpu")
    nodes = {}
    for node, cpus in folders.items():
        nodes[node] = _cores((cpu, path) for cpu, path in cpus if is_online(cpu))
        _add_caches(system / "cpu", nodes[node])
    return nodes


def _cores(cpus: Iterable[tuple[int, Path]]) -> list[_Core]:
    """Return the cores of one NUMA node: threads with one core id and one socket id."""
    cores: dict[tuple[int, int], _Core] = {}
    for cpu, path in cpus:
        core_id = _topology(path, "core_id")
        socket = None if core_id is None else _topology(path, "physical_package_id")
        if core_id is not None and socket is not None:
            cores.setdefault((core_id, socket), _Core(socket)).threads.append(cpu)
    return list(cores.values())


def _topology(cpu: Path, name: str) -> int | None:
    path = cpu / "topology" / name
    if not exists(path):
        return None
    number = read_int(path)
    if number is None:
        raise _OddError(path)
    return number


def _add_caches(cpus: Path, cores: list[_Core]) -> None:
    """Note the cache that a core shares with some of its NUMA node only; one of the whole node is left out.

    The first core whose caches cannot be read ends it: the cores after it have none.
    """
    for core in cores:
        caches = _caches(cpus / f"cpu{core.threads[0]}/cache")
        if caches is None:
            return
        threads_of_node = len(cores) * len(core.threads)
        shared = (one.id for one in caches if one.level >= _SHARED_LEVEL and one.cpus != threads_of_node)
        core.uncore_cache = next(shared, None)


def _caches(folder: Path) -> list[_Cache] | None:
    if not exists(folder):
        return None
    caches = []
    for name in (name for name in names_in(folder) if name.startswith("index")):
        id_, level = read_int(folder / name / "id"), read_int(folder / name / "level")
        masks = read_text(folder / name / "shared_cpu_map").split(",")
        if id_ is None or level is None or not _SIZE.match(read_text(folder / name / "size")):
            return None
        try:
            cpus = sum(int(mask, 16).bit_count() for mask in masks)
        except ValueError:
            return None
        caches.append(_Cache(id_, level, cpus))
    return caches


def _count_sockets(cpus: Path) -> int:
    """Return how many socket ids the online CPUs have; a CPU without one counts as 0."""
    is_online = _Online(cpus)
    return len(
        {
            read_text(path / "topology/physical_package_id") or "0"
            for cpu, path in _numbered(_CPU, cpus)
            if is_online(cpu)
        }
    )


class _Online:
    """Whether a CPU is online; all are on a kernel without CPU hotplug."""

    def __init__(self, cpus: Path) -> None:
        self._all = not exists(cpus / "online")
        self._online = parse_cpulist(read_text(cpus / "online"))

    def __call__(self, cpu: int) -> bool:
        return self._all or cpu in self._online


def _numbered(pattern: re.Pattern[str], folder: Path) -> Iterator[tuple[int, Path]]:
    """Yield the ids and paths of what is in a folder, in the order of the names, as cAdvisor reads them."""
    for name in names_in(folder):
        match = pattern.fullmatch(name)
        if match:
            yield int(match[1]), folder / name
