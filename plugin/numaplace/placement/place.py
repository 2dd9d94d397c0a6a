"""The answer to GetPreferredAllocation: snapshot + request -> device ids + reasons.

In this order: nothing to choose, candidate masks, comparison, devices inside the mask.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

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
from numaplace.placement.reasons import Asker, Candidate, MaskChoice, Outcome, Placement
from numaplace.placement.together import keep_together
from numaplace.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """One GetPreferredAllocation, as the kubelet sent it, and what is known of who asks.

    ``freed_at`` holds the time in seconds at which a device was freed; absent = never seen in use.
    """

    available: Collection[DeviceId]
    must_include: Collection[DeviceId]
    size: int
    asker: Asker = field(default_factory=Asker)
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
        asker = Asker(request.asker.held)
        return Placement(ids, Outcome.ALL, options.strategy, asker=asker)
    musts = musts[: max(request.size, 0)]

    scorer = _Scorer(snapshot, options, request.asker.requested)
    choice, asker = _choose_mask(
        request,
        offered.union(musts) if musts else offered,
        musts,
        index=index,
        topology=topology,
        snapshot=snapshot,
        scorer=scorer,
    )
    nodes: Iterable[int] = () if choice.mask is None else nodes_of(choice.mask)
    picked = pick_devices(
        offered,
        request.size - len(musts),
        index=index,
        strategy=options.strategy,
        nodes=sorted(nodes, key=scorer.filling_order),
        taken=musts,
        freed_at=request.freed_at,
    )
    outcome = Outcome.NO_TOPOLOGY if choice.mask is None else Outcome.PLACED
    return Placement((*musts, *picked), outcome, options.strategy, choice, asker)


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


def _choose_mask(
    request: PlacementRequest,
    pool: Collection[DeviceId],
    musts: list[DeviceId],
    *,
    index: DeviceIndex,
    topology: NumaTopology,
    snapshot: Snapshot | None,
    scorer: _Scorer,
) -> tuple[MaskChoice, Asker]:
    found = Counter(map(index.mask.get, pool))
    counts = {mask: count for mask, count in found.items() if mask}
    required = [index.mask.get(device_id, 0) for device_id in musts]
    masks = candidate_masks(counts, request.size, required=required, topology=topology)
    if not masks:
        return MaskChoice(), replace(request.asker, rest={}, cpus=0)
    together = keep_together(masks, request.asker, snapshot=snapshot)
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
    choice = MaskChoice(
        selection.chosen.mask,
        selection.structural.mask,
        selection.rule,
        tuple(candidates),
        union_of(counts),
    )
    return choice, replace(request.asker, rest=together.rest, cpus=together.cpus)
