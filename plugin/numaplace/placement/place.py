"""The answer to GetPreferredAllocation: snapshot + request -> device ids + reasons.

In this order: nothing to choose, candidate masks, comparison, devices inside the mask.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from numaplace.engine.compare import Rule
from numaplace.engine.hint import Hint
from numaplace.engine.options import PolicyOptions
from numaplace.engine.score import weighted_mean
from numaplace.engine.select import select
from numaplace.model.mask import nodes_of, union_of, width
from numaplace.model.names import DeviceId, ResourceName, Strategy
from numaplace.model.topology import NumaTopology
from numaplace.placement.candidates import candidate_masks
from numaplace.placement.index import DeviceIndex
from numaplace.placement.pick import pick_devices
from numaplace.placement.reasons import Candidate, Outcome, Placement
from numaplace.placement.together import Amounts, Together, keep_together
from numaplace.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """One GetPreferredAllocation, as the kubelet sent it, and what is known of who asks.

    ``held`` is the mask of NUMA nodes that the asking container has devices on already; 0 if none or unknown.
    ``rest`` are the other resources, with amounts, that the container has still to be given. ``requested``
    are the names of all that it asks for, if its spec is known; ``None``: then ``rest`` is a guess.
    ``cpus`` is the mask of the NUMA nodes that its exclusive CPUs will come from; 0 if none or unknown.
    ``freed_at`` holds the time in seconds at which a device was freed; absent = never seen in use.
    """

    available: Collection[DeviceId]
    must_include: Collection[DeviceId]
    size: int
    held: int = 0
    rest: Amounts = field(default_factory=dict)
    requested: frozenset[ResourceName] | None = None
    cpus: int = 0
    freed_at: Mapping[DeviceId, float] = field(default_factory=dict)


def place(
    request: PlacementRequest,
    *,
    index: DeviceIndex,
    topology: NumaTopology,
    snapshot: Snapshot | None,
    options: PolicyOptions,
) -> Placement:
    """Choose ``request.size`` of the offered devices. Total: any request gets an answer.

    Without a snapshot every candidate is unscored and the structural rule decides.
    """
    musts = list(dict.fromkeys(request.must_include))
    offered = frozenset(request.available)
    if musts:
        offered = offered.difference(musts)
    if request.size >= len(offered) + len(musts):
        ids = (*musts, *index.ordered(offered))
        return Placement(ids=ids, outcome=Outcome.ALL, strategy=options.strategy, held=request.held)
    musts = musts[: max(request.size, 0)]

    scorer = _Scorer(snapshot, options, request.requested)
    chosen = _choose_mask(
        request,
        offered.union(musts) if musts else offered,
        musts,
        index=index,
        topology=topology,
        snapshot=snapshot,
        scorer=scorer,
    )
    nodes: Iterable[int] = () if chosen.mask is None else nodes_of(chosen.mask)
    picked = pick_devices(
        offered,
        request.size - len(musts),
        index=index,
        strategy=options.strategy,
        nodes=sorted(nodes, key=scorer.filling_order),
        taken=musts,
        freed_at=request.freed_at,
    )
    return Placement(
        ids=(*musts, *picked),
        outcome=Outcome.NO_TOPOLOGY if chosen.mask is None else Outcome.PLACED,
        strategy=options.strategy,
        mask=chosen.mask,
        structural=chosen.structural,
        rule=chosen.rule,
        candidates=chosen.candidates,
        offered=chosen.offered,
        held=request.held,
        rest=chosen.together.rest,
        cpus=chosen.together.cpus,
        requested=request.requested,
    )


class _Scorer:
    """Scores masks over the requested resources (KEP-6007), or all that have state if those are unknown."""

    def __init__(
        self, snapshot: Snapshot | None, options: PolicyOptions, requested: frozenset[ResourceName] | None
    ) -> None:
        self.options = options
        scored = snapshot.tallies if snapshot and options.strategy is not Strategy.NONE else {}
        self._tallies = [
            (name, scored[name])
            for name in sorted(scored)
            if options.weights.of(name) > 0 and (requested is None or name in requested)
        ]

    def scores(self, mask: int) -> dict[ResourceName, int]:
        """Return the score of each weighted resource that has one."""
        return {name: score for name, tally in self._tallies if (score := tally.score(mask)) > 0}

    def aggregate(self, scores: Mapping[ResourceName, int]) -> int:
        """Return the weighted mean, 0 without scores."""
        weight_of = self.options.weights.of
        return weighted_mean([(score, weight_of(name)) for name, score in scores.items()])

    def filling_order(self, node: int) -> tuple[int, int]:
        """Sort the nodes of a chosen mask: which to empty first, under either strategy the fullest.

        So what is left of them lies where most was free. Emptying the emptiest first makes NUMA nodes less
        even than the kubelet's random choice does, and aligns fewer of the jobs to come (see the study).
        """
        return -self.aggregate(self.scores(1 << node)), node


@dataclass(frozen=True, slots=True)
class _Chosen:
    mask: int | None
    structural: int | None
    rule: Rule | None
    candidates: tuple[Candidate, ...]
    together: Together
    offered: int = 0


def _choose_mask(
    request: PlacementRequest,
    pool: Collection[DeviceId],
    musts: list[DeviceId],
    *,
    index: DeviceIndex,
    topology: NumaTopology,
    snapshot: Snapshot | None,
    scorer: _Scorer,
) -> _Chosen:
    found = Counter(map(index.mask.get, pool))
    counts = {mask: count for mask, count in found.items() if mask}
    required = [index.mask.get(device_id, 0) for device_id in musts]
    masks = candidate_masks(counts, request.size, required=required, topology=topology)
    if not masks:
        return _Chosen(None, None, None, (), Together(()))
    together = keep_together(
        masks, held=request.held, rest=request.rest, cpus=request.cpus, snapshot=snapshot
    )
    candidates = []
    for mask in masks:
        scores = scorer.scores(mask)
        candidates.append(
            Candidate(
                mask=mask, preferred=mask in together.masks, score=scorer.aggregate(scores), scores=scores
            )
        )
    selection = select(
        (Hint(c.mask, c.preferred, c.score) for c in candidates),
        topology=topology,
        policy="best-effort",
        options=scorer.options,
        best_non_preferred=width(masks[0]),
    )
    assert selection is not None  # noqa: S101 - there is at least one candidate and none is empty
    return _Chosen(
        selection.chosen.mask,
        selection.structural.mask,
        selection.rule,
        tuple(candidates),
        together,
        union_of(counts),
    )
