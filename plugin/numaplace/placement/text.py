"""A placement in words: one sentence for the log, the demo and Events. The data stays the truth."""

from __future__ import annotations

from numaplace.engine.compare import Rule
from numaplace.model.mask import nodes_of
from numaplace.placement.reasons import Candidate, Outcome, Placement


def numa_text(mask: int | None) -> str:
    """Return ``NUMA 1``, ``NUMA 0,2``, or ``any NUMA node`` without a mask."""
    return "any NUMA node" if mask is None else "NUMA " + ",".join(str(node) for node in nodes_of(mask))


def why(placement: Placement) -> str:
    """Return one sentence on why these devices, naming the losers and the scores that mattered."""
    if placement.outcome is Outcome.ALL:
        return "as many were asked for as are offered"
    if placement.outcome is Outcome.NO_TOPOLOGY or placement.mask is None:
        return "the offered devices have no NUMA node"
    chosen = numa_text(placement.mask)
    others = [candidate for candidate in placement.candidates if candidate.mask != placement.mask]
    if not others:
        sentence = f"only {chosen} can hold the request"
    elif placement.rule is Rule.SCORE:
        sentence = f"{chosen}: {placement.strategy}, {_scores(placement)}"
    elif placement.rule is Rule.PREFERRED and placement.held:
        sentence = f"{chosen}: where the container's other devices are ({numa_text(placement.held)})"
    else:
        sentence = f"{chosen}: {_structural(placement)}"
    if placement.score_decided:
        sentence += f"; without scores it would have been {numa_text(placement.structural)}"
    return sentence


def _scores(placement: Placement) -> str:
    mine = next(c for c in placement.candidates if c.mask == placement.mask)
    others = sorted(
        (c for c in placement.candidates if c.mask != placement.mask and c.preferred == mine.preferred),
        key=lambda c: (abs(c.score - mine.score), c.mask),
    )
    shown = ", ".join(f"{_short(c)} {c.score}" for c in others[:3])
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    return f"score {mine.score} against {shown}{more}" if others else f"score {mine.score}"


def _short(candidate: Candidate) -> str:
    return numa_text(candidate.mask)


def _structural(placement: Placement) -> str:
    mine = next(c for c in placement.candidates if c.mask == placement.mask)
    rivals = [c for c in placement.candidates if c.preferred == mine.preferred]
    if placement.rule is Rule.CLOSEST:
        return "least average distance between its nodes"
    if mine.score and all(c.score == mine.score for c in rivals):
        return f"lowest id, all candidates score {mine.score}"
    return "lowest id"
