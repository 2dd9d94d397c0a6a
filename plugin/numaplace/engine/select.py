"""Pick the best of already merged hints, and say why. Follows the loop of kubelet ``HintMerger.Merge``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from numaplace.engine.compare import Criteria, Rule, compare, criteria_for
from numaplace.engine.hint import Hint
from numaplace.engine.options import PolicyOptions
from numaplace.model.names import Strategy
from numaplace.model.topology import NumaTopology


@dataclass(frozen=True, slots=True)
class Selection:
    """The outcome of one selection.

    ``chosen`` is the pick; ``structural`` is the pick of the same hints without scores.
    ``candidates`` holds one hint per distinct mask, by rising mask: the chosen one for its own mask, for
    another mask the first preferred hint, or the first one if none is preferred.
    ``rule`` is what separates ``chosen`` from the runner-up, which is the pick if no hint had the chosen
    mask; ``only-candidate`` without a runner-up. So "score" means that some other node set was as good by
    structure and lost on its score, whether or not the structural pick is the same.
    """

    chosen: Hint
    structural: Hint
    rule: Rule
    candidates: tuple[Hint, ...]

    @property
    def score_decided(self) -> bool:
        """Whether scores changed the pick (``numa_score_selection_total`` counts these)."""
        return self.chosen.mask != self.structural.mask


def select(
    hints: Iterable[Hint],
    *,
    topology: NumaTopology,
    policy: str,
    options: PolicyOptions,
    best_non_preferred: int,
) -> Selection | None:
    """Fold merged hints, in their order, into the best one; ``None`` if all masks are empty.

    One pass: the structural pick is carried along. ``best_non_preferred`` is the count of
    ``max_of_min_affinity_counts``. Never raises; repeated calls give equal results.
    """
    criteria = criteria_for(topology, policy, options=options, best_non_preferred=best_non_preferred)
    without_scores = criteria.structural()
    scoring = criteria.strategy is not Strategy.NONE
    chosen: Hint | None = None
    structural: Hint | None = None
    by_mask: dict[int, Hint] = {}
    for hint in hints:
        if not hint.mask:
            continue
        seen = by_mask.get(hint.mask)
        # A repeated mask of no better preference never moves the structural pick, only the scored one.
        if seen is None or (hint.preferred and not seen.preferred):
            by_mask[hint.mask] = hint
            if compare(structural, hint, without_scores).candidate_wins:
                structural = hint
        if scoring and compare(chosen, hint, criteria).candidate_wins:
            chosen = hint
    if structural is None:
        return None
    return conclude(by_mask, chosen=chosen or structural, structural=structural, criteria=criteria)


def conclude(by_mask: dict[int, Hint], *, chosen: Hint, structural: Hint, criteria: Criteria) -> Selection:
    """Return the outcome of a selection that has been made.

    ``by_mask`` holds the first preferred hint of each mask, or the first one, in the order of the masks'
    first hints. The chosen one is put in there.
    """
    by_mask[chosen.mask or 0] = chosen
    return Selection(
        chosen=chosen,
        structural=structural,
        rule=_deciding_rule(chosen, by_mask.values(), criteria),
        candidates=tuple(by_mask[mask] for mask in sorted(by_mask)),
    )


def _deciding_rule(chosen: Hint, candidates: Iterable[Hint], criteria: Criteria) -> Rule:
    runner_up: Hint | None = None
    for hint in candidates:
        if hint is not chosen and compare(runner_up, hint, criteria).candidate_wins:
            runner_up = hint
    return compare(runner_up, chosen, criteria).rule
