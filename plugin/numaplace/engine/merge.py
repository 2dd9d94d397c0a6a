"""Merge what the providers offer into one hint. Follows kubelet ``policy.go``.

The kubelet walks a provider's resources in Go's random map order; here they are taken by sorted name, so
that equal offers always merge to equal results. The order matters only where the comparison keeps the
first of several hints with the same mask.

This is the plain merge: it tries every combination of one hint per resource. The policies use the fast one
(``fast_merge``), which this one explains and tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from numaplace.engine.hint import ANY_NODE, NO_NODE, Hint
from numaplace.engine.options import PolicyOptions
from numaplace.engine.score import UNSCORED, aggregate
from numaplace.engine.select import Selection, select
from numaplace.engine.weights import Weights
from numaplace.model.names import ResourceName
from numaplace.model.topology import NumaTopology

ProvidersHints = Sequence[Mapping[ResourceName, Sequence[Hint] | None]]
"""Per provider, the hints of each resource; ``None`` for a resource means no preference."""

NO_RESOURCE = ResourceName("")


@dataclass(frozen=True, slots=True)
class ResourceHints:
    """The hints of one resource; the resource is empty for a provider that named none."""

    resource: ResourceName
    hints: tuple[Hint, ...]


@dataclass(frozen=True, slots=True)
class Merged:
    """A merged hint and how it was selected; no selection where no combination of hints has a common node."""

    hint: Hint
    selection: Selection | None


def filter_providers_hints(providers_hints: ProvidersHints) -> tuple[ResourceHints, ...]:
    """Flatten the offers to one entry per resource (``filterProvidersHints``).

    A provider without resources, and a resource without a list, have no preference: any node, preferred.
    A resource with an empty list cannot be given: any node, not preferred.
    """
    flat: list[ResourceHints] = []
    for provider in providers_hints:
        if not provider:
            flat.append(ResourceHints(NO_RESOURCE, (ANY_NODE,)))
        for resource in sorted(provider):
            hints = provider[resource]
            offered = (ANY_NODE,) if hints is None else tuple(hints) or (NO_NODE,)
            flat.append(ResourceHints(resource, offered))
    return tuple(flat)


def max_of_min_affinity_counts(filtered: Sequence[ResourceHints]) -> int:
    """Return the width of the widest of the resources' narrowest affinities; 0 without any.

    ``maxOfMinAffinityCounts``: the narrowest mask that the most demanding resource can do with.
    """
    narrowest = (
        min((hint.mask.bit_count() for hint in entry.hints if hint.mask is not None), default=0)
        for entry in filtered
    )
    return max(narrowest, default=0)


def merge_permutation(
    default_mask: int, resources: Sequence[ResourceName], hints: Sequence[Hint], *, weights: Weights
) -> Hint:
    """Merge one hint of each resource (``mergePermutation``, with the aggregated score).

    The mask is the intersection within ``default_mask``. Preferred: all hints are, and all affinities are
    equal. ``resources`` names the owner of each hint, for its weight.
    """
    merged, first, preferred = default_mask, None, True
    for hint in hints:
        preferred = preferred and hint.preferred
        if hint.mask is not None:
            first = hint.mask if first is None else first
            preferred = preferred and hint.mask == first
            merged &= hint.mask
    score = aggregate(zip(resources, hints, strict=True), weights) if merged else UNSCORED
    return Hint(merged, preferred, score)


def merge(
    filtered: Sequence[ResourceHints], *, topology: NumaTopology, policy: str, options: PolicyOptions
) -> Merged:
    """Return the best merged hint; all nodes, not preferred, if no combination has a common node."""
    selection = select(
        _permutations(filtered, topology.mask, options.weights),
        topology=topology,
        policy=policy,
        options=options,
        best_non_preferred=max_of_min_affinity_counts(filtered),
    )
    if selection is None:
        return Merged(Hint(topology.mask, preferred=False), None)
    return Merged(selection.chosen, selection)


def _permutations(filtered: Sequence[ResourceHints], default_mask: int, weights: Weights) -> Iterator[Hint]:
    resources = [entry.resource for entry in filtered]
    for hints in product(*(entry.hints for entry in filtered)):
        yield merge_permutation(default_mask, resources, hints, weights=weights)
