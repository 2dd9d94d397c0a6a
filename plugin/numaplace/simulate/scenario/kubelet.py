"""The ``kubelet`` section: the keys of KubeletConfiguration that the resource managers read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

from numaplace.engine.options import PolicyName
from numaplace.managers.admission import Scope
from numaplace.managers.cpu.policy import CPU_POLICIES
from numaplace.managers.memory.policies import MEMORY_POLICIES
from numaplace.managers.memory.reserved import MemoryReservation
from numaplace.model.names import ResourceName
from numaplace.reading.keys import Keys
from numaplace.reading.kinds import BOOL, TEXT, Kind, choice
from numaplace.reading.names import CPU_LIST, NUMA_NODE
from numaplace.reading.quantities import parse_size
from numaplace.reading.readers import Leaf
from numaplace.simulate.scenario.amounts import read_amounts
from numaplace.simulate.scenario.records import KubeletSettings

GATES = (
    "TopologyManagerPolicyAlphaOptions",
    "TopologyManagerPolicyBetaOptions",
    "CPUManagerPolicyAlphaOptions",
    "CPUManagerPolicyBetaOptions",
)
RESERVATION_KEYS = ("systemReserved", "kubeReserved", "evictionHard")
EVICTION_SIGNALS = (
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "containerfs.available",
    "containerfs.inodesFree",
    "pid.available",
)
_IDENTITY = ("apiVersion", "kind")


_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)%")


def _parse_threshold(text: str) -> int | Fraction:
    match = _PERCENT.fullmatch(text)
    if match is None:
        return parse_size(text)
    part = Fraction(match[1]) / 100
    if part > 1:
        raise ValueError(f"more than everything: {text!r}")
    return part


THRESHOLD: Kind[int | Fraction | None] = Kind(
    "a quantity such as 100Mi, or a percentage such as 5%", _parse_threshold
)


def read_kubelet(keys: Keys) -> KubeletSettings:
    for name in _IDENTITY:
        keys.value(name, TEXT, "")
    settings = KubeletSettings(
        topology_policy=keys.value("topologyManagerPolicy", choice(PolicyName), PolicyName.NONE),
        scope=keys.value("topologyManagerScope", choice(Scope), Scope.CONTAINER),
        topology_options=keys.texts("topologyManagerPolicyOptions", TEXT),
        cpu_policy=keys.value("cpuManagerPolicy", choice(CPU_POLICIES), "none"),
        cpu_options=keys.texts("cpuManagerPolicyOptions", TEXT),
        memory_policy=keys.value("memoryManagerPolicy", choice(MEMORY_POLICIES), "None"),
        reserved_cpus=keys.value("reservedSystemCPUs", CPU_LIST, frozenset()),
        reserved_memory=tuple(_reservations(keys)),
        system_reserved=_reserved(keys, "systemReserved"),
        kube_reserved=_reserved(keys, "kubeReserved"),
        hard_eviction=_hard_eviction(keys),
        states_reservation=any(name in keys.section.entries for name in RESERVATION_KEYS),
        gates=_gates(keys),
        places=dict(keys.section.key_where),
    )
    keys.refuse_rest()
    return settings


def _reservations(keys: Keys) -> Iterator[MemoryReservation]:
    for one in keys.mappings("reservedMemory"):
        node = one.required("numaNode", NUMA_NODE, 0)
        limits = one.mapping("limits", required="a mapping such as {memory: 1Gi}")
        amounts = {} if limits is None else read_amounts(limits, also="memory, hugepages-<size>")
        one.refuse_rest()
        yield MemoryReservation(node, amounts)


def _reserved(keys: Keys, name: str) -> dict[ResourceName, int]:
    opened = keys.mapping(name)
    return {} if opened is None else read_amounts(opened, ignored=("ephemeral-storage", "pid"))


def _hard_eviction(keys: Keys) -> int | Fraction | None:
    """Return the threshold of ``memory.available``; the other signals do not concern NUMA nodes."""
    opened = keys.mapping("evictionHard")
    if opened is None:
        return None if "evictionHard" not in keys.section.entries else 0
    threshold = opened.value("memory.available", THRESHOLD, 0)
    for name in EVICTION_SIGNALS:
        opened.take(name)
    opened.refuse_rest()
    return threshold


def _gates(keys: Keys) -> dict[str, bool]:
    opened = keys.mapping("featureGates")
    gates: dict[str, bool] = {}
    if opened is None:
        return gates
    for name in GATES:
        node = opened.take(name)
        if node is not None:
            gates[name] = opened.read(Leaf(BOOL), node, name=name, default=False)
    opened.refuse_rest()
    return gates
