"""A placement in words: one sentence for the log, the demo and Events. The data stays the truth."""

from __future__ import annotations

from collections.abc import Mapping

from numaplace.engine.compare import Rule
from numaplace.model.mask import nodes_of, width
from numaplace.model.names import ResourceName
from numaplace.model.quantity import quantity_text
from numaplace.placement.reasons import Outcome, Placement


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
    if placement.outcome is Outcome.ALL:
        return "as many were asked for as are offered"
    if placement.outcome is Outcome.NO_TOPOLOGY or placement.mask is None:
        return "the offered devices have no NUMA node"
    chosen = numa_text(placement.mask)
    others = [candidate for candidate in placement.candidates if candidate.mask != placement.mask]
    if not others and placement.offered == placement.mask and width(placement.mask) == 1:
        # Nothing else is free, or the Topology Manager has chosen: the kubelet does not say which.
        sentence = f"the kubelet offered devices of {chosen} only"
    elif not others:
        together = " together" if width(placement.mask) > 1 else ""
        sentence = f"only {chosen}{together} can hold the request"
    elif placement.rule is Rule.SCORE:
        sentence = f"{placement.strategy}: {_scores(placement)}"
    elif placement.rule is Rule.PREFERRED and placement.rest:
        wanted = " and ".join(amount_text(name, amount) for name, amount in placement.rest.items())
        known = placement.requested is not None
        whose = "the container also asks for" if known else "such containers also held"
        sentence = f"{chosen} alone has {wanted} free too, which {whose}"
    elif placement.rule is Rule.PREFERRED and placement.cpus:
        sentence = f"beside the CPUs that the kubelet will give the container: {chosen}"
    elif placement.rule is Rule.PREFERRED and placement.held:
        sentence = f"beside the container's other devices: {chosen}"
    else:
        sentence = _structural(placement)
    if placement.score_decided:
        sentence += f"; without scores it would be {numa_text(placement.structural)}"
    return sentence


def _scores(placement: Placement) -> str:
    mine = next(c for c in placement.candidates if c.mask == placement.mask)
    others = sorted(
        (c for c in placement.candidates if c.mask != placement.mask and c.preferred == mine.preferred),
        key=lambda c: (abs(c.score - mine.score), c.mask),
    )
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    return scores_text({one.mask: one.score for one in (mine, *others[:3])}) + more


def _structural(placement: Placement) -> str:
    chosen = numa_text(placement.mask)
    mine = next(c for c in placement.candidates if c.mask == placement.mask)
    rivals = [c for c in placement.candidates if c.preferred == mine.preferred]
    if placement.rule is Rule.CLOSEST:
        return f"least distance between its nodes: {chosen}"
    if mine.score and len(rivals) > 1 and all(c.score == mine.score for c in rivals):
        return f"lowest id: {chosen}, all candidates score {mine.score}"
    return f"lowest id: {chosen}"
