"""A simulated node's trees: what sysfs, procfs and devfs show of its NUMA nodes and cards.

Each NUMA node has one CPU: containers are real, and the kernel refuses them CPUs that the machine does not
have. (A kubelet whose CPU manager hands out no CPUs may know of more.)
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from harness.hardware import Hardware, install
from harness.topology import SimulatedTopology

NUMA_NODES = {"n1": 2, "n2": 4}
"""The nodes of a cluster, whoever makes it."""

_DESCRIPTION = "hardware.json"


def simulate(root: Path, numa_nodes: int) -> None:
    """Write the trees. Device nodes are plain files under ``dev``."""
    topology = SimulatedTopology.uniform(numa_nodes, cpus_each=1, memory_gib_each=8)
    topology.write(root)
    hardware = install(root, topology)
    (root / _DESCRIPTION).write_text(json.dumps({**asdict(hardware), "root": "/"}))


def simulated_hardware(root: Path) -> Hardware:
    """Return the cards that ``simulate`` has put there."""
    return Hardware(**json.loads((root / _DESCRIPTION).read_text()))


def device_nodes(root: Path) -> list[str]:
    """Return the cards' device nodes, as paths on the node."""
    found = sorted((root / "dev").rglob("*"))
    return [f"/{path.relative_to(root)}" for path in found if path.is_file()]
