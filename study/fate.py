"""The outcomes of a job that the study counts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from numaplace.managers.admission import TOPOLOGY_AFFINITY_ERROR
from numaplace.model.names import CPU, Amounts
from numaplace.simulate.simulator.results import Created

from study.node import Books, Held, nodes_of
from study.worlds import World


class Fate(StrEnum):
    """One job's end; "room" is what the node as a whole had free when the job came."""

    ALIGNED = "aligned"
    """Admitted, everything inside one domain; or on all domains, for a job that no domain could hold."""
    SPLIT = "split"
    """Admitted on devices of several domains, although an empty domain could hold the job."""
    ASTRAY = "astray"
    """Admitted with its devices, if it has any, in one domain and exclusive CPUs elsewhere."""
    FULL = "full"
    """Refused for lack of room."""
    FRAGMENTED = "fragmented"
    """Refused with TopologyAffinityError in spite of room; an empty NUMA node could hold the job."""
    OVERSIZED = "oversized"
    """The same, but no NUMA node could ever hold the job."""
    OTHER = "other"
    """Refused in spite of room for any other reason; the study's worlds give none."""


ADMITTED = frozenset({Fate.ALIGNED, Fate.SPLIT, Fate.ASTRAY})


@dataclass(frozen=True, slots=True)
class Room:
    """What was free when a job came: enough on the node as a whole, enough inside one domain."""

    total: bool
    one_domain: bool

    @classmethod
    def of(cls, books: Books, amounts: Amounts) -> Room:
        return cls(books.room_in_total(amounts), books.room_in_a_domain(amounts))


def fate_of(world: World, amounts: Amounts, created: Created, *, held: Held, room: Room) -> Fate:
    """Classify a job by its request and its allocation."""
    if not created.admitted:
        return _refused(world, amounts, reason=created.reason, room=room)
    devices, cpus = nodes_of(held, world.device), nodes_of(held, CPU)
    wide = any(n > world.capacity[name] * len(world.groups[0]) for name, n in amounts.items())
    if not wide and not _inside_one(world, devices):
        return Fate.SPLIT
    if not wide and not _inside_one(world, devices | cpus):
        return Fate.ASTRAY
    return Fate.ALIGNED


def _refused(world: World, amounts: Amounts, *, reason: str, room: Room) -> Fate:
    if not room.total:
        return Fate.FULL
    if reason != TOPOLOGY_AFFINITY_ERROR:
        return Fate.OTHER
    fits = all(n <= world.capacity[name] for name, n in amounts.items())
    return Fate.FRAGMENTED if fits else Fate.OVERSIZED


def _inside_one(world: World, nodes: frozenset[int]) -> bool:
    return any(nodes <= set(group) for group in world.groups)
