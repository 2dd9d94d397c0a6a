"""A placement in words: one sentence for the log, the demo and Events. The data stays the truth."""

from __future__ import annotations

from collections.abc import Mapping

from numaplace.engine.compare import Rule
from numaplace.model.mask import nodes_of, width
from numaplace.model.names import ResourceName
from numaplace.model.quantity import quantity_text
from numaplace.placement.reasons import MaskChoice, Outcome, Placement


def numa_text(mask: int | None) -> str:
    """Return ``NUMA 1``, ``NUMA 0,2``, or ``any NUMA node`` without a mask."""
    return "any NUMA node" if mask is None else "NUMA " + ",".join(str(node) for node in nodes_of(mask))


def amount_text(name: ResourceName, amount: int) -> str:
    """Return ``2 nvidia.com/gpu``, ``4 cpu``, ``8Gi memory``."""
    return f"{quantity_text(name, amount)} {name}"


def scores_text(scores: Mapping[int, int]) -> str:
    """Return ``NUMA 1 scores 12, NUMA 0 37``, of scores by mask in their order."""
    verbs = ("" if number else "scores " for number in range(len(scores)))
    return ", ".join(
        f"{numa_text(mask)} {verb}{score}" for verb, (mask, score) in zip(verbs, scores.items(), strict=True)
    )


def why(placement: Placement) -> str:
    """Return one sentence on why these devices, naming the losers and the scores that mattered."""
    choice, asker = placement.choice, placement.asker
    if placement.outcome is Outcome.ALL:
        return "as many were asked for as are offered"
    if placement.outcome is Outcome.NO_TOPOLOGY or choice.mask is None:
        return "the offered devices have no NUMA node"
    chosen = numa_text(choice.mask)
    others = [candidate for candidate in choice.candidates if candidate.mask != choice.mask]
    if not others and choice.offered == choice.mask and width(choice.mask) == 1:
        # Nothing else is free, or the Topology Manager has chosen: the kubelet does not say which.
        sentence = f"the kubelet offered devices of {chosen} only"
    elif not others:
        together = " together" if width(choice.mask) > 1 else ""
        sentence = f"only {chosen}{together} can hold the request"
    elif choice.rule is Rule.SCORE:
        sentence = f"{placement.strategy}: {_scores(choice)}"
    elif choice.rule is Rule.PREFERRED and asker.rest:
        wanted = " and ".join(amount_text(name, amount) for name, amount in asker.rest.items())
        known = asker.requested is not None
        whose = "the container also asks for" if known else "such containers also held"
        sentence = f"{chosen} alone has {wanted} free too, which {whose}"
    elif choice.rule is Rule.PREFERRED and asker.cpus:
        sentence = f"beside the CPUs that the kubelet will give the container: {chosen}"
    elif choice.rule is Rule.PREFERRED and asker.held:
        sentence = f"beside the container's other devices: {chosen}"
    else:
        sentence = _structural(choice)
    if choice.score_decided:
        sentence += f"; without scores it would be {numa_text(choice.structural)}"
    return sentence


def _scores(choice: MaskChoice) -> str:
    mine = next(c for c in choice.candidates if c.mask == choice.mask)
    others = sorted(
        (c for c in choice.candidates if c.mask != choice.mask and c.preferred == mine.preferred),
        key=lambda c: (abs(c.score - mine.score), c.mask),
    )
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    return scores_text({one.mask: one.score for one in (mine, *others[:3])}) + more


def _structural(choice: MaskChoice) -> str:
    chosen = numa_text(choice.mask)
    mine = next(c for c in choice.candidates if c.mask == choice.mask)
    rivals = [c for c in choice.candidates if c.preferred == mine.preferred]
    if choice.rule is Rule.CLOSEST:
        return f"least distance between its nodes: {chosen}"
    if mine.score and len(rivals) > 1 and all(c.score == mine.score for c in rivals):
        return f"lowest id: {chosen}, all candidates score {mine.score}"
    return f"lowest id: {chosen}"
