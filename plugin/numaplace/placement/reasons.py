"""Why a placement was made: data, rendered at the edge (log, Event, ``explain``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from numaplace.engine.compare import Rule
from numaplace.model.names import DeviceId, ResourceName, Strategy


class Outcome(StrEnum):
    """What kind of answer was given."""

    PLACED = "placed"
    """Devices were chosen by the comparison."""
    ALL = "all"
    """As many were asked for as were offered: nothing to choose."""
    NO_TOPOLOGY = "no-topology"
    """The offered devices have no NUMA node, or too few have one: chosen by group, age and id."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A mask that can hold the request. ``score`` is the weighted mean of ``scores``; 0 = none.

    All candidates are equally wide. ``preferred`` ones keep the container together (``together``).
    """

    mask: int
    preferred: bool
    score: int
    scores: Mapping[ResourceName, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Placement:
    """The answer and its reasons.

    ``mask`` is the chosen NUMA mask, ``structural`` what it would have been without scores; None = no mask.
    ``offered`` is the mask of all NUMA nodes that offered devices are on.
    ``held`` is the mask of NUMA nodes that the asking container had devices on already (0 = none or unknown).
    ``rest`` is what the container has still to be given, if masks were passed over for the lack of it.
    ``cpus`` is the mask of NUMA nodes where its CPUs will be, if masks were passed over for that.
    ``requested`` are the names of all that it asks for, by its spec; ``None``: the spec is not known, and
    ``rest`` is what similar containers held.
    """

    ids: tuple[DeviceId, ...]
    outcome: Outcome
    strategy: Strategy
    mask: int | None = None
    structural: int | None = None
    rule: Rule | None = None
    candidates: tuple[Candidate, ...] = ()
    offered: int = 0
    held: int = 0
    rest: Mapping[ResourceName, int] = field(default_factory=dict)
    cpus: int = 0
    requested: frozenset[ResourceName] | None = None

    @property
    def score_decided(self) -> bool:
        """Whether scores changed the choice (KEP-6007, ``numa_score_selection_total``)."""
        return self.mask != self.structural
