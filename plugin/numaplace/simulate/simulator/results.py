"""The results of a run, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from numaplace.engine.compare import Rule
from numaplace.engine.hint import Hint
from numaplace.managers.admission import Decision
from numaplace.model.names import DeviceId, ResourceName
from numaplace.model.podresources import MemoryBlock
from numaplace.placement.reasons import Placement
from numaplace.prediction.harm import Prediction
from numaplace.steering.decision import SteeringDecision


@dataclass(frozen=True, slots=True)
class HeldDevices:
    """Devices of one resource in natural order, and the NUMA nodes that they are on."""

    ids: tuple[DeviceId, ...]
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ContainerResult:
    """What one container got, right after its pod's admission; nothing in a refused pod.

    ``affinity`` is the Topology Manager's mask, None for no preference. ``structural`` is the mask without
    scores, ``rule`` what decided, ``candidates`` the merged hints that competed, by rising mask; under the
    Topology Manager's policy ``none`` they are the plugin's first placement, if it made one.
    """

    name: str
    affinity: int | None = None
    preferred: bool = False
    structural: int | None = None
    rule: Rule | None = None
    candidates: tuple[Hint, ...] = ()
    cpus: frozenset[int] = frozenset()
    memory: tuple[MemoryBlock, ...] = ()
    devices: Mapping[ResourceName, HeldDevices] = field(default_factory=dict)
    placements: Mapping[ResourceName, Placement] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Steered:
    """What the plugin published before a decision of the Topology Manager.

    The decision is for ``container``, or for the whole pod (empty), which asks for ``resources``. ``stock``
    is what a kubelet does that sees all topology; None if nothing of these resources is withheld.
    """

    container: str
    decision: SteeringDecision
    resources: tuple[ResourceName, ...] = ()
    stock: Prediction | None = None


@dataclass(frozen=True, slots=True)
class Created:
    """A pod was created: admitted, or refused with the kubelet's reason.

    ``steering`` are the sets that were published, in their order; empty without steering.
    """

    step: int
    pod: str
    admitted: bool
    reason: str
    message: str
    containers: tuple[ContainerResult, ...]
    decisions: tuple[Decision, ...] = ()
    steering: tuple[Steered, ...] = ()


@dataclass(frozen=True, slots=True)
class Deleted:
    """A pod was deleted; ``held`` is false for one that had been refused."""

    step: int
    pod: str
    held: bool


@dataclass(frozen=True, slots=True)
class HealthChanged:
    """Devices turned unhealthy or healthy."""

    step: int
    resource: ResourceName
    ids: tuple[DeviceId, ...]
    healthy: bool


StepResult = Created | Deleted | HealthChanged


@dataclass(frozen=True, slots=True)
class NodeUse:
    """One NUMA node: allocatable and allocated CPUs, bytes and devices by resource.

    A device of two NUMA nodes counts on both. CPU and memory are there if their manager allocates.
    """

    id: int
    allocatable: Mapping[ResourceName, int]
    allocated: Mapping[ResourceName, int]

    def free(self, resource: ResourceName) -> int:
        """Return what is left; negative while unhealthy devices are held."""
        return self.allocatable.get(resource, 0) - self.allocated.get(resource, 0)
