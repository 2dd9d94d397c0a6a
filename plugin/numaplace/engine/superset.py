"""First combinations by transforms over the lattice of masks, for resources with very many hints.

The cost is a few passes over all masks of the machine per resource (n times 2^n steps for n NUMA nodes),
whatever the number of hints, where meeting the hints pairwise would cost its square.

For each mask, each resource's first hint that contains it is found. If these hints have nothing else in
common, they are the first combination that comes to the mask, since no combination that comes to it holds an
earlier hint. If they have more in common, some other combination may come to the mask: whether one does is
found by inclusion and exclusion over the number of hints that contain each mask. Its sums are then
taken from the first hints that contain the mask; the true first combination is not searched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import add, and_, mul, sub

from numaplace.engine.terms import Sums, Table, Term

MAX_NODES = 20
"""Above it, all masks of a machine are too many to hold."""


def first_by_superset(levels: Sequence[Sequence[Term]], *, nodes: Sequence[int]) -> Table:
    """Return the masks that combinations come to, rising, with sums as above.

    ``levels`` are the resources' terms for ``Intersection``; ``nodes`` the machine's ids, ascending, at most
    ``MAX_NODES``.
    """
    masks = _all_masks(nodes)
    place = {mask: index for index, mask in enumerate(masks)}
    common = [masks[-1]] * len(masks)
    points, weights = [0] * len(masks), [0] * len(masks)
    for terms in levels:
        firsts = _first_containing(terms, place)
        # One more term for the masks that no hint contains: it leaves no common node.
        closed = [*terms, Term(0, 0, 0)]
        picked = [closed[index] for index in firsts]
        common = list(map(and_, common, (term.key for term in picked)))
        points = list(map(add, points, (term.points for term in picked)))
        weights = list(map(add, weights, (term.weight for term in picked)))
    come = [mask == met for mask, met in zip(masks, common, strict=True)]
    if any(met & mask == mask != met for mask, met in zip(masks, common, strict=True)):
        come = [count > 0 for count in _combinations_of(levels, place)]
    return {
        mask: Sums(points[index], weights[index]) for index, mask in enumerate(masks) if mask and come[index]
    }


def _all_masks(nodes: Iterable[int]) -> list[int]:
    """Return all masks over the nodes, rising: bit i of a mask's place stands for the i-th node."""
    masks = [0]
    for node in nodes:
        masks += [mask | 1 << node for mask in masks]
    return masks


def _first_containing(terms: Sequence[Term], place: dict[int, int]) -> list[int]:
    """Return, per mask, the position of the first term that contains it; the number of terms if none does."""
    firsts = [len(terms)] * len(place)
    for index, term in enumerate(terms):
        at = place[term.key]
        firsts[at] = min(firsts[at], index)
    return _over_supersets(firsts, min)


def _combinations_of(levels: Sequence[Sequence[Term]], place: dict[int, int]) -> list[int]:
    """Return, per mask, the number of combinations that come to exactly this mask."""
    containing = [1] * len(place)
    for terms in levels:
        counts = [0] * len(place)
        for term in terms:
            counts[place[term.key]] += 1
        containing = list(map(mul, containing, _over_supersets(counts, add)))
    return _over_supersets(containing, sub)


def _over_supersets(values: list[int], fold: Callable[[int, int], int]) -> list[int]:
    """Fold into each mask's value, node by node, the value of the mask that has this node too.

    With ``add`` and ``min`` each mask ends with the sum or the least of all its supersets' values; ``sub``
    undoes ``add``. Works in slices, the fewer of the two ways to cut them. Changes ``values``.
    """
    size, step = len(values), 1
    while step < size:
        stride = 2 * step
        if step * stride <= size:
            pairs = [(slice(at, None, stride), slice(at + step, None, stride)) for at in range(step)]
        else:
            pairs = [(slice(at, at + step), slice(at + step, at + stride)) for at in range(0, size, stride)]
        for without, having in pairs:
            values[without] = list(map(fold, values[without], values[having]))
        step = stride
    return values
