"""Reads the cases of this area into values."""

from pathlib import Path

import yaml
from numaplace.model.device import Device
from numaplace.model.podresources import Allocatable, ContainerUse, DeviceBlock, MemoryBlock, PodUse
from numaplace.model.topology import NumaTopology

CASES = Path(__file__).parent.parent / "cases" / "state"
DEFAULT_NODES = {0: range(8), 1: range(8, 16)}


def cases(name):
    return yaml.safe_load((CASES / name).read_text(encoding="utf-8"))


def topology_of(case):
    nodes = case.get("nodes", DEFAULT_NODES)
    return NumaTopology(tuple(nodes), {node: frozenset(cpus) for node, cpus in nodes.items()})


def device_blocks(rows):
    return tuple(DeviceBlock(resource, tuple(ids), tuple(nodes)) for resource, ids, nodes in rows)


def memory_blocks(rows):
    return tuple(MemoryBlock(type_, size, tuple(nodes)) for type_, size, nodes in rows)


def container_of(row, index=0):
    return ContainerUse(
        row.get("name", f"c{index}"),
        device_blocks(row.get("devices", ())),
        frozenset(row.get("cpus", ())),
        memory_blocks(row.get("memory", ())),
        tuple(row.get("claims", ())),
    )


def key_of(text):
    namespace, name = text.split("/")
    return namespace, name


def pod_of(text, row):
    row = row if isinstance(row, dict) else {"containers": row}
    containers = tuple(container_of(one, index) for index, one in enumerate(row["containers"]))
    return PodUse(
        *key_of(text), containers, frozenset(row.get("cpus", ())), memory_blocks(row.get("memory", ()))
    )


def snapshot_input(case):
    allocatable = case.get("allocatable", {})
    unhealthy = case.get("unhealthy", ())
    return {
        "topology": topology_of(case),
        "allocatable": Allocatable(
            device_blocks(allocatable.get("devices", ())),
            frozenset(allocatable.get("cpus", ())),
            memory_blocks(allocatable.get("memory", ())),
        ),
        "pods": tuple(pod_of(text, row) for text, row in case.get("pods", {}).items()),
        "devices": {
            resource: {
                key: Device(key, tuple(nodes), healthy=key not in unhealthy) for key, nodes in own.items()
            }
            for resource, own in case.get("own", {}).items()
        },
        "granted": {resource: frozenset(ids) for resource, ids in case.get("granted", {}).items()},
        "offered": {resource: frozenset(ids) for resource, ids in case.get("offered", {}).items()},
        "taken_at_seconds": 100.0,
    }
