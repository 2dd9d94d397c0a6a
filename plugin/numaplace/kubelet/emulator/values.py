"""The emulator's input (node, pods, faults) and output (admissions, calls)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from numaplace.engine.options import PolicyName, PolicyOptions
from numaplace.managers.admission import Scope
from numaplace.managers.device_manager import ContainerKind
from numaplace.model.device import ContainerEdits
from numaplace.model.names import DeviceId, PodKey, ResourceName
from numaplace.model.podresources import MemoryBlock
from numaplace.model.topology import NumaTopology

UNEXPECTED_ADMISSION_ERROR = "UnexpectedAdmissionError"
"""The reason of a rejection, as in the pod's status, except those of the Topology Manager."""

PodResourcesMethod = Literal["List", "Get", "GetAllocatableResources"]


@dataclass(frozen=True, slots=True)
class EmulatedNode:
    """The machine. Amounts are by NUMA node id; ``reserved_cpus`` are not allocatable.

    ``static_cpus`` and ``static_memory`` stand for the kubelet's CPU manager policy ``static`` and memory
    manager policy ``Static``; without them the API shows no CPUs and no memory. With a ``topology_policy``
    the Topology Manager decides on affinities; without, the caller of ``admit`` does.
    """

    topology: NumaTopology
    memory_bytes: Mapping[int, int] = field(default_factory=dict)
    hugepages_bytes: Mapping[ResourceName, Mapping[int, int]] = field(default_factory=dict)
    reserved_cpus: frozenset[int] = frozenset()
    static_cpus: bool = True
    static_memory: bool = True
    topology_policy: PolicyName | None = None
    scope: Scope = Scope.CONTAINER
    options: PolicyOptions = field(default_factory=PolicyOptions)


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """One container. ``cpus`` are exclusive CPUs.

    ``restart_policy`` "Always" makes a sidecar of an init container.
    """

    name: str
    devices: Mapping[ResourceName, int] = field(default_factory=dict)
    cpus: int = 0
    memory_bytes: int = 0
    hugepages_bytes: Mapping[ResourceName, int] = field(default_factory=dict)
    restart_policy: Literal["", "Always"] = ""


@dataclass(frozen=True, slots=True)
class PodSpec:
    """One pod. Init containers, sidecars among them, are admitted before the containers."""

    namespace: str
    name: str
    containers: tuple[ContainerSpec, ...]
    init_containers: tuple[ContainerSpec, ...] = ()

    @property
    def key(self) -> PodKey:
        return (self.namespace, self.name)

    @property
    def in_admission_order(self) -> tuple[tuple[ContainerSpec, ContainerKind], ...]:
        """All containers with their kinds, in the order in which the kubelet admits them."""
        init = tuple(
            (one, ContainerKind.SIDECAR if one.restart_policy == "Always" else ContainerKind.INIT)
            for one in self.init_containers
        )
        return init + tuple((one, ContainerKind.APP) for one in self.containers)


@dataclass(frozen=True, slots=True)
class RateLimit:
    """A token bucket over all PodResources calls of the node."""

    per_second: float
    burst: int


KUBELET_RATE_LIMIT = RateLimit(per_second=100, burst=10)
"""The limit of every released kubelet. Off by default in the emulator, so that runs can be repeated."""


@dataclass(frozen=True, slots=True)
class Faults:
    """How the PodResources API misbehaves.

    ``errors`` holds gRPC status code names by method, ``delays_seconds`` waits before the answer.
    """

    errors: Mapping[PodResourcesMethod, str] = field(default_factory=dict)
    delays_seconds: Mapping[PodResourcesMethod, float] = field(default_factory=dict)
    rate_limit: RateLimit | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """How long the emulator waits for a plugin: for its socket at Register, and for the answer to a call.

    The kubelet also dials for 10 s, but waits for answers without a limit; a test must not.
    """

    dial_seconds: float = 10.0
    call_seconds: float = 30.0


NO_FAULTS = Faults()
DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Call:
    """One call to a plugin during an admission. All ids but those of ``answer`` are sorted.

    GetPreferredAllocation: ``available``, ``must_include`` and ``size`` as asked, ``answer`` as replied.
    Allocate: ``available`` and ``must_include`` are empty, ``answer`` holds the ids that the kubelet settled
    on, sorted, and ``size`` their number. ``error`` is the gRPC status code name if the call failed.
    ``seconds`` is how long the kubelet waited.
    """

    method: Literal["GetPreferredAllocation", "Allocate"]
    pod: PodKey
    container: str
    resource: ResourceName
    available: tuple[DeviceId, ...] = ()
    must_include: tuple[DeviceId, ...] = ()
    size: int = 0
    answer: tuple[DeviceId, ...] = ()
    error: str = ""
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class Admission:
    """The outcome of one pod's admission.

    ``containers`` holds the sorted device ids by container and resource, ``edits`` the Allocate responses.
    Init containers are included. ``reason`` and ``message`` are empty if the pod was admitted; a rejected
    pod shows what its containers had received by then.
    """

    admitted: bool
    reason: str = ""
    message: str = ""
    calls: tuple[Call, ...] = ()
    containers: Mapping[str, Mapping[ResourceName, tuple[DeviceId, ...]]] = field(default_factory=dict)
    edits: Mapping[str, Mapping[ResourceName, ContainerEdits]] = field(default_factory=dict)
    cpus: Mapping[str, frozenset[int]] = field(default_factory=dict)
    memory: Mapping[str, tuple[MemoryBlock, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A connected plugin. ``primary`` is the one that the kubelet calls for the resource."""

    resource: ResourceName
    socket_path: str
    preferred_allocation: bool
    primary: bool


@dataclass(frozen=True, slots=True)
class Registration:
    """A Register call; ``problem`` says why it was refused."""

    resource: ResourceName
    endpoint: str
    version: str
    problem: str = ""
