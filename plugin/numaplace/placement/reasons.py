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
class Asker:
    """What is known of the container that asks, as far as it matters.

    ``held`` is the mask of NUMA nodes that it has devices on already; 0 if none or unknown.
    ``rest`` are the other resources, with amounts, that it has still to be given. ``requested`` are the names
    of all that it asks for, by its spec; ``None``: the spec is not known, and ``rest`` is what similar
    containers held. ``cpus`` is the mask of the NUMA nodes that its exclusive CPUs will come from; 0 if none
    or unknown.
    """

    held: int = 0
    rest: Mapping[ResourceName, int] = field(default_factory=dict)
    requested: frozenset[ResourceName] | None = None
    cpus: int = 0


@dataclass(frozen=True, slots=True)
class MaskChoice:
    """``mask`` was chosen; ``structural`` is what it would have been without scores; None = no mask.

    ``offered`` is the mask of all NUMA nodes that offered devices are on.
    """

    mask: int | None = None
    structural: int | None = None
    rule: Rule | None = None
    candidates: tuple[Candidate, ...] = ()
    offered: int = 0

    @property
    def score_decided(self) -> bool:
        """Whether scores changed the choice (KEP-6007, ``numa_score_selection_total``)."""
        return self.mask != self.structural


@dataclass(frozen=True, slots=True)
class Placement:
    """The answer and its reasons. Of ``asker``, ``rest`` and ``cpus`` are what masks were passed over for."""

    ids: tuple[DeviceId, ...]
    outcome: Outcome
    strategy: Strategy
    choice: MaskChoice = MaskChoice()
    asker: Asker = field(default_factory=Asker)
