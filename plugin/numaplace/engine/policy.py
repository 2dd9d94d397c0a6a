"""The Topology Manager's policies. Follows kubelet ``policy_*.go`` and the checks of ``NewManager``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from numaplace.engine.compare import Rule
from numaplace.engine.fast_merge import fast_merge
from numaplace.engine.hint import NO_NODE, Hint
from numaplace.engine.merge import ProvidersHints, ResourceHints, filter_providers_hints
from numaplace.engine.options import MAX_ALLOWABLE_NUMA_NODES, PolicyName, PolicyOptions
from numaplace.engine.select import Selection
from numaplace.errors import InputError
from numaplace.model.topology import NumaTopology


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """The hint that the resource managers follow, and whether the pod or container is admitted.

    ``selection`` is how the hint was found; ``None`` where there was nothing to select.
    """

    hint: Hint
    admit: bool
    selection: Selection | None = None

    @property
    def rule(self) -> Rule:
        """The rule that decided; ``no-candidate`` without a selection."""
        return self.selection.rule if self.selection else Rule.NO_CANDIDATE

    @property
    def score_decided(self) -> bool:
        """Whether scores changed the pick."""
        return self.selection is not None and self.selection.score_decided


class Policy(Protocol):
    """A policy: a name, and how it merges the providers' hints. Total: it never raises."""

    @property
    def name(self) -> PolicyName: ...

    def merge(
        self, providers_hints: ProvidersHints, topology: NumaTopology, options: PolicyOptions
    ) -> PolicyResult:
        """Merge the hints and decide on admission."""


class NonePolicy:
    """Align nothing, admit everything."""

    name = PolicyName.NONE

    def merge(
        self,
        providers_hints: ProvidersHints,
        topology: NumaTopology,
        options: PolicyOptions,
    ) -> PolicyResult:
        """Return no affinity, as the kubelet's zero hint."""
        return PolicyResult(NO_NODE, admit=True)


class BestEffortPolicy:
    """Align as well as possible, admit everything."""

    name = PolicyName.BEST_EFFORT

    def merge(
        self, providers_hints: ProvidersHints, topology: NumaTopology, options: PolicyOptions
    ) -> PolicyResult:
        filtered = filter_providers_hints(providers_hints)
        merged = fast_merge(filtered, topology=topology, policy=self.name, options=options)
        return PolicyResult(merged.hint, admit=True, selection=merged.selection)


class RestrictedPolicy:
    """Align as well as possible, admit only what is preferred."""

    name = PolicyName.RESTRICTED

    def merge(
        self, providers_hints: ProvidersHints, topology: NumaTopology, options: PolicyOptions
    ) -> PolicyResult:
        filtered = filter_providers_hints(providers_hints)
        merged = fast_merge(filtered, topology=topology, policy=self.name, options=options)
        return PolicyResult(merged.hint, admit=merged.hint.preferred, selection=merged.selection)


class SingleNumaNodePolicy:
    """Admit only what fits one NUMA node."""

    name = PolicyName.SINGLE_NUMA_NODE

    def merge(
        self, providers_hints: ProvidersHints, topology: NumaTopology, options: PolicyOptions
    ) -> PolicyResult:
        """Merge the preferred hints of one node; a result of all nodes means no affinity."""
        single = single_node_hints(filter_providers_hints(providers_hints))
        merged = fast_merge(single, topology=topology, policy=self.name, options=options)
        hint = merged.hint
        if hint.mask == topology.mask:
            hint = replace(hint, mask=None, score=0)
        return PolicyResult(hint, admit=hint.preferred, selection=merged.selection)


def single_node_hints(filtered: Sequence[ResourceHints]) -> tuple[ResourceHints, ...]:
    """Keep preferred hints of exactly one node or of any node (``filterSingleNumaHints``)."""
    return tuple(
        ResourceHints(
            entry.resource,
            tuple(
                hint
                for hint in entry.hints
                if hint.preferred and (hint.mask is None or hint.mask.bit_count() == 1)
            ),
        )
        for entry in filtered
    )


POLICIES: Mapping[str, Policy] = {
    policy.name: policy
    for policy in (NonePolicy(), BestEffortPolicy(), RestrictedPolicy(), SingleNumaNodePolicy())
}


def policy_for(name: str, *, topology: NumaTopology, options: PolicyOptions) -> Policy:
    """Return the policy of that name, checked against the machine (``NewManager``).

    ``InputError`` for an unknown name, and for more NUMA nodes than allowed under any policy but ``none``.
    """
    policy = POLICIES.get(name)
    if policy is None:
        raise InputError(f"unknown Topology Manager policy {name!r} (allowed: {', '.join(POLICIES)})")
    limit = options.max_allowable_numa_nodes
    if policy.name != PolicyName.NONE and len(topology.nodes) > limit:
        raise InputError(
            f"Topology Manager policy {name!r} supports at most {limit} NUMA nodes, this machine has "
            f"{len(topology.nodes)} (raise the policy option {MAX_ALLOWABLE_NUMA_NODES}, or use 'none')"
        )
    return policy
