"""One pod's admission: the Topology Manager's scopes over the device, CPU and memory managers.

Reimplements kubelet v1.37.2 ``cm/topologymanager``: ``scope_container.go``, ``scope_pod.go``,
``scope_none.go``, ``scope.go`` (``allocateAlignedResources``), and ``cm/admission/errors.go``
(``GetPodAdmitResult``). The managers are called in the order in which ``container_manager_linux.go`` adds
them: devices, CPUs, memory.

Feature gate ``PodLevelResourceManagers`` (alpha, off by default in 1.37) is assumed to be off.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from numaplace.engine.hint import Hint
from numaplace.engine.merge import ProvidersHints
from numaplace.engine.policy import PolicyResult
from numaplace.errors import AllocationError
from numaplace.managers.pod import Container, Pod
from numaplace.model.names import ResourceName

TOPOLOGY_AFFINITY_ERROR = "TopologyAffinityError"
TOPOLOGY_AFFINITY_MESSAGE = "Resources cannot be allocated with Topology locality"
UNEXPECTED_ADMISSION_ERROR = "UnexpectedAdmissionError"
OWN_REASONS = frozenset({"SMTAlignmentError"})
"""Reasons of managers that reach the pod's status as they are; all others read as unexpected."""

NO_AFFINITY = Hint(None, preferred=False)
"""What a manager sees for a container that the Topology Manager has not considered (policy ``none``)."""

Hints = Mapping[ResourceName, Sequence[Hint] | None]


class Scope(StrEnum):
    """``topologyManagerScope``."""

    CONTAINER = "container"
    POD = "pod"


class HintProvider(Protocol):
    """A resource manager with its current state; ``allocate`` changes it, or raises ``AllocationError``."""

    def container_hints(self, pod: Pod, container: Container) -> Hints: ...

    def pod_hints(self, pod: Pod) -> Hints: ...

    def allocate(self, pod: Pod, container: Container, affinity: Hint) -> None: ...


Merge = Callable[[ProvidersHints], PolicyResult]
"""A Topology Manager policy on this node, with its options."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What the Topology Manager decided for a container, or for the pod (``container`` is empty)."""

    container: str
    hints: ProvidersHints
    result: PolicyResult


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether a pod is admitted, with the kubelet's reason and message if not, and the decisions on the way.

    ``affinities`` holds the hint that each container was allocated with, in order; the ones after a failure
    are missing.
    """

    admitted: bool
    reason: str = ""
    message: str = ""
    decisions: tuple[Decision, ...] = ()
    affinities: Mapping[str, Hint] = field(default_factory=dict)


def admit(
    pod: Pod, providers: Sequence[HintProvider], *, merge: Merge | None, scope: Scope = Scope.CONTAINER
) -> Outcome:
    """Admit a pod. ``merge`` is ``None`` under policy ``none``: no hints are collected then."""
    decisions: list[Decision] = []
    affinities: dict[str, Hint] = {}

    def refused(reason: str, message: str) -> Outcome:
        return Outcome(
            admitted=False, reason=reason, message=message, decisions=tuple(decisions), affinities=affinities
        )

    affinity = NO_AFFINITY
    if merge is not None and scope is Scope.POD:
        decision = _decide("", [one.pod_hints(pod) for one in providers], merge)
        decisions.append(decision)
        if not decision.result.admit:
            return refused(TOPOLOGY_AFFINITY_ERROR, TOPOLOGY_AFFINITY_MESSAGE)
        affinity = decision.result.hint
    for container in pod.in_order:
        if merge is not None and scope is Scope.CONTAINER:
            hints = [one.container_hints(pod, container) for one in providers]
            decision = _decide(container.name, hints, merge)
            decisions.append(decision)
            if not decision.result.admit:
                return refused(TOPOLOGY_AFFINITY_ERROR, TOPOLOGY_AFFINITY_MESSAGE)
            affinity = decision.result.hint
        affinities[container.name] = affinity
        try:
            for provider in providers:
                provider.allocate(pod, container, affinity)
        except AllocationError as error:
            if error.reason in OWN_REASONS:
                return refused(error.reason, str(error))
            return refused(UNEXPECTED_ADMISSION_ERROR, f"Allocate failed due to {error}, which is unexpected")
    return Outcome(admitted=True, decisions=tuple(decisions), affinities=affinities)


def _decide(container: str, hints: Sequence[Hints], merge: Merge) -> Decision:
    return Decision(container, hints, merge(hints))
