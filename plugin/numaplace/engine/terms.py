"""Combinations of one hint per resource, without walking their product.

A combination is the meeting of its hints' keys, and the sums that make its score. There are two meetings:

- ``Intersection``: keys are affinity masks within the machine; the merged mask is what all have in common.
- ``Agreement``: keys are the affinities of preferred hints; they meet only if they are the same one. These
  are the preferred combinations: all hints preferred, all affinities equal (``mergePermutation``).

A hint for any node meets every key. Many combinations come to the same key, so one resource after another
is met with a table of keys instead of with all combinations of the resources behind it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from numaplace.engine.hint import Hint
from numaplace.engine.score import UNSCORED

ANY_KEY = -1
"""The key that meets every key and leaves it as it is (all bits set)."""
NO_KEY = 0
"""What two keys that do not meet come to: a combination without a common node."""


class Sums(NamedTuple):
    """What the scored hints of a combination add up to: weight times score, and weight."""

    points: int
    weight: int

    @property
    def score(self) -> int:
        """The weighted mean, rounded down; 0 if no hint counts (``aggregate``)."""
        return self.points // self.weight if self.weight else UNSCORED


class Term(NamedTuple):
    """One hint as a part of combinations: its key, and what it adds to their sums."""

    key: int
    points: int
    weight: int


Table = dict[int, Sums]
"""The keys that combinations come to, in the order of their first combinations, with the sums of these.

Combinations are in lexicographic order of the hints' positions, as the plain merge walks them.
"""

Best = dict[int, int]
"""The keys that combinations of one weight come to, with the greatest points of each."""


@dataclass(frozen=True, slots=True)
class Aim:
    """The masks to come to, all ``width`` wide and within the machine's ``default_mask``."""

    masks: frozenset[int]
    width: int
    default_mask: int


class Meeting(Protocol):
    """How keys meet."""

    def terms(self, hints: Iterable[Hint], weight: int, *, default_mask: int) -> list[Term]:
        """Return the terms of one resource's hints, in order, without those that meet nothing."""

    def meet(self, a: int, b: int) -> int:
        """Return what two keys come to."""

    def improve(self, best: Best, term: Term, rest: Best) -> None:
        """Put a term in front of what ``rest`` holds the best points of, and raise those of ``best``.

        Takes ``term.points`` as they are; the entry of ``NO_KEY``, if any, means nothing.
        """

    def leads_to(self, key: int, aim: Aim) -> bool:
        """Return whether a key may come to a mask of the aim; true too often rather than too rarely."""

    def first(self, terms: Sequence[Term], rest: Table) -> Table:
        """Put a resource in front of the resources of a table."""


class Intersection:
    """Masks meet in their common nodes."""

    def terms(self, hints: Iterable[Hint], weight: int, *, default_mask: int) -> list[Term]:
        found = [
            Term(default_mask if hint.mask is None else hint.mask & default_mask, *_sums(hint, weight))
            for hint in hints
        ]
        return [term for term in found if term.key]

    def meet(self, a: int, b: int) -> int:
        return a & b

    def improve(self, best: Best, term: Term, rest: Best) -> None:
        key, points, _ = term
        known = best.get
        for other, rest_points in rest.items():
            met, value = key & other, points + rest_points
            if value > known(met, value - 1):
                best[met] = value

    def leads_to(self, key: int, aim: Aim) -> bool:
        """Accept the masks, and what is wider: one of them may be within."""
        return key & aim.default_mask in aim.masks or key.bit_count() > aim.width

    def first(self, terms: Sequence[Term], rest: Table) -> Table:
        table: Table = {NO_KEY: Sums(0, 0)}
        for key, points, weight in _distinct(terms):
            # What the key can still add is known beforehand, and mostly found long before the rest ends.
            missing = {mask for mask in _submasks(key, rest) if mask not in table}
            if not missing:
                continue
            for other, (rest_points, rest_weight) in rest.items():
                met = key & other
                if met in missing:
                    table[met] = Sums(points + rest_points, weight + rest_weight)
                    missing.discard(met)
                    if not missing:
                        break
        del table[NO_KEY]
        return table


class Agreement:
    """Equal affinities of preferred hints meet."""

    def terms(self, hints: Iterable[Hint], weight: int, *, default_mask: int) -> list[Term]:
        """Take the preferred hints that have a node of the machine, or want any."""
        return [
            Term(ANY_KEY if hint.mask is None else hint.mask, *_sums(hint, weight))
            for hint in hints
            if hint.preferred and (hint.mask is None or hint.mask & default_mask)
        ]

    def meet(self, a: int, b: int) -> int:
        """Return the affinity that both agree on."""
        if a in (b, ANY_KEY):
            return b
        return a if b == ANY_KEY else NO_KEY

    def improve(self, best: Best, term: Term, rest: Best) -> None:
        for other in self._partners(term.key, rest):
            met, value = self.meet(term.key, other), term.points + rest[other]
            best[met] = max(best.get(met, value), value)

    def leads_to(self, key: int, aim: Aim) -> bool:
        """Accept the masks and any node."""
        return key == ANY_KEY or key & aim.default_mask in aim.masks

    def first(self, terms: Sequence[Term], rest: Table) -> Table:
        rank = {key: position for position, key in enumerate(rest)}
        table: Table = {}
        for key, points, weight in _distinct(terms):
            for other in sorted(self._partners(key, rest), key=rank.__getitem__):
                met = self.meet(key, other)
                if met not in table:
                    table[met] = Sums(points + rest[other].points, weight + rest[other].weight)
        return table

    def _partners(self, key: int, keys: Collection[int]) -> Iterable[int]:
        return keys if key == ANY_KEY else [other for other in (key, ANY_KEY) if other in keys]


def _sums(hint: Hint, weight: int) -> tuple[int, int]:
    """Return what a hint adds; nothing for one that has no affinity or no score."""
    return (weight * hint.score, weight) if hint.mask is not None and hint.score > 0 else (0, 0)


def _distinct(terms: Iterable[Term]) -> Iterable[Term]:
    """Return the first term of each key."""
    first: dict[int, Term] = {}
    for term in terms:
        first.setdefault(term.key, term)
    return first.values()


def _submasks(key: int, rest: Table) -> Iterable[int]:
    """Return the masks within ``key`` but the empty one, or what it meets in ``rest`` if that is less."""
    if 1 << key.bit_count() > len(rest):
        yield from {key & other for other in rest}
        return
    mask = key
    while mask:
        yield mask
        mask = (mask - 1) & key
