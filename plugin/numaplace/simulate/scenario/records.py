"""A scenario as values. Amounts as in ``managers.pod``: thousandths of a CPU, bytes, devices.

``where`` is the place in the file (``file:line``), for messages about problems found later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from numaplace.engine.options import PolicyName
from numaplace.engine.weights import Weights
from numaplace.managers.admission import Scope
from numaplace.managers.memory.reserved import MemoryReservation
from numaplace.managers.pod import Pod
from numaplace.model.device import Device
from numaplace.model.names import Amounts, DeviceId, ResourceName, Strategy
from numaplace.prediction.request import Request
from numaplace.steering.search import NO_HEADROOM, Headroom


@dataclass(frozen=True, slots=True)
class NumaNode:
    """One NUMA node. ``sizes`` are its bytes by type; ``memory`` is all of it, hugepages included."""

    id: int
    cpus: frozenset[int]
    sizes: Mapping[ResourceName, int]


@dataclass(frozen=True, slots=True)
class CpuGroups:
    """Which CPUs share a socket, a last-level cache, a core. CPUs that are not named have the defaults."""

    sockets: Mapping[int, frozenset[int]] = field(default_factory=dict)
    uncore_caches: Mapping[int, frozenset[int]] = field(default_factory=dict)
    cores: tuple[frozenset[int], ...] = ()


@dataclass(frozen=True, slots=True)
class Machine:
    """The hardware. ``numa_nodes`` by ascending id; ``distances`` has a row and a column for each of them."""

    numa_nodes: tuple[NumaNode, ...]
    distances: tuple[tuple[int, ...], ...] = ()
    cpu_groups: CpuGroups = field(default_factory=CpuGroups)
    devices: Mapping[ResourceName, tuple[Device, ...]] = field(default_factory=dict)

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(node.id for node in self.numa_nodes)


@dataclass(frozen=True, slots=True)
class KubeletSettings:
    """What the kubelet's managers read of a KubeletConfiguration.

    ``hard_eviction`` is ``memory.available``: bytes, or a part of the node's memory; None for the kubelet's
    default. ``states_reservation``: the file says what the node reserves; otherwise it is what
    ``reservedMemory`` and ``reservedSystemCPUs`` add up to. ``places`` is where each key was written.
    """

    topology_policy: PolicyName = PolicyName.NONE
    scope: Scope = Scope.CONTAINER
    topology_options: Mapping[str, str] = field(default_factory=dict)
    cpu_policy: str = "none"
    cpu_options: Mapping[str, str] = field(default_factory=dict)
    memory_policy: str = "None"
    reserved_cpus: frozenset[int] = frozenset()
    reserved_memory: tuple[MemoryReservation, ...] = ()
    system_reserved: Amounts = field(default_factory=dict)
    kube_reserved: Amounts = field(default_factory=dict)
    hard_eviction: int | Fraction | None = None
    states_reservation: bool = False
    gates: Mapping[str, bool] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)


class Enforcement(StrEnum):
    """Who applies the strategy."""

    OFF = "off"
    KUBELET = "kubelet"
    PREFERRED = "preferred"
    STEERING = "steering"


@dataclass(frozen=True, slots=True)
class PlacementSettings:
    """The strategy and who applies it.

    ``prefer_closest`` and ``follow_cpus`` are the plugin's, not the kubelet's. ``requests``, ``headroom``
    and ``always`` (its mode) are those of steering; without ``requests`` it learns them from the pods.
    """

    strategy: Strategy = Strategy.NONE
    weights: Weights = field(default_factory=Weights)
    enforcement: Enforcement = Enforcement.OFF
    prefer_closest: bool = False
    follow_cpus: bool = True
    requests: tuple[Request, ...] = ()
    headroom: Headroom = NO_HEADROOM
    always: bool = False
    where: str = ""


@dataclass(frozen=True, slots=True)
class Share:
    """An anonymous allocation on one NUMA node from the start."""

    where: str
    key: str
    numa: int
    amounts: Amounts


@dataclass(frozen=True, slots=True)
class Create:
    """A pod arrives."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class Delete:
    """A pod goes, if it was admitted."""

    name: str


@dataclass(frozen=True, slots=True)
class Health:
    """Devices turn unhealthy, or healthy again."""

    resource: ResourceName
    ids: tuple[DeviceId, ...]
    healthy: bool


Step = Create | Delete | Health


@dataclass(frozen=True, slots=True)
class Scenario:
    """A machine, a kubelet, and what happens."""

    machine: Machine
    kubelet: KubeletSettings = field(default_factory=KubeletSettings)
    placement: PlacementSettings = field(default_factory=PlacementSettings)
    allocated: tuple[Share, ...] = ()
    steps: tuple[Step, ...] = ()
