"""The host's NUMA topology, from ``/sys/devices/system/node``."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from numaplace.devices.files import names_in, read_text, to_int
from numaplace.model.mask import MAX_NODE
from numaplace.model.ranges import parse_range
from numaplace.model.topology import NumaTopology

_PREFIX = "node"
_MAX_ID = (1 << 16) - 1


def read_topology(sysfs: Path) -> NumaTopology:
    """Return the NUMA nodes with their CPUs and distances. Never raises.

    Node ids may be sparse. A kernel without NUMA has no node directory: one node 0 with all online CPUs.
    Unreadable parts are empty (CPUs) or the defaults (distances); ids above 63 are beyond what the kubelet
    can name and are dropped. Source: Linux ``Documentation/ABI/stable/sysfs-devices-node``.
    """
    base = sysfs / "devices/system/node"
    nodes = _node_ids(base)
    if not nodes:
        cpus = parse_cpulist(read_text(sysfs / "devices/system/cpu/online"))
        return NumaTopology(nodes=(0,), cpus={0: cpus})
    return NumaTopology(
        nodes=nodes,
        cpus={node: parse_cpulist(read_text(base / f"{_PREFIX}{node}/cpulist")) for node in nodes},
        distances={node: _distances(base, node, nodes) for node in nodes},
    )


def parse_cpulist(text: str) -> frozenset[int]:
    """Return the ids of a kernel list such as ``0-3,8``; other parts are skipped."""
    ids: set[int] = set()
    for part in text.split(","):
        with suppress(ValueError):
            ids.update(parse_range(part.strip(), highest=_MAX_ID))
    return frozenset(ids)


def _node_ids(base: Path) -> tuple[int, ...]:
    """Return the online nodes that have a directory; the directories alone if the list is unusable."""
    present = {
        number
        for name in names_in(base)
        if name.startswith(_PREFIX) and (number := to_int(name.removeprefix(_PREFIX))) is not None
    }
    online = parse_cpulist(read_text(base / "online"))
    return tuple(sorted(node for node in (present & online or present) if 0 <= node <= MAX_NODE))


def _distances(base: Path, node: int, nodes: tuple[int, ...]) -> dict[int, int]:
    """Return one row; empty (the defaults) unless it has one positive number per node."""
    row = [to_int(word) for word in read_text(base / f"{_PREFIX}{node}/distance").split()]
    numbers = [number for number in row if number is not None and number > 0]
    return dict(zip(nodes, numbers, strict=True)) if len(row) == len(numbers) == len(nodes) else {}
