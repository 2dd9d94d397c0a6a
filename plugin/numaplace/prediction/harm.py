"""What a kubelet would do with a request, and when that is as good as something else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from numaplace.model.mask import width
from numaplace.model.names import ResourceName


@dataclass(frozen=True, slots=True)
class Prediction:
    """The outcome for one unit of admission (``Request.units``).

    ``reason`` is the kubelet's for a refusal. ``mask`` is the Topology Manager's affinity, ``None`` for none,
    ``preferred`` whether it is as narrow as the hardware allows. ``aligned`` counts, by resource, the whole
    CPUs, bytes and devices that are certain to come from the mask's nodes.
    """

    admitted: bool
    reason: str = ""
    mask: int | None = None
    preferred: bool = False
    aligned: Mapping[ResourceName, int] = field(default_factory=dict)


class Harm(StrEnum):
    """In what respect an outcome is not as good as another."""

    REFUSED = "refused"
    ADMITTED = "admitted-although-the-policy-refuses"
    WIDER = "wider"
    NOT_PREFERRED = "not-preferred"
    LESS_ALIGNED = "less-aligned"


def harm(outcome: Prediction, *, instead_of: Prediction) -> Harm | None:
    """Return how ``outcome`` is worse, ``None`` if it is not (design, "never worse").

    Not worse: admitted if and only if the other one is; then a mask that is no wider, preferred if the other
    one's is, and of every resource as much from the mask's nodes.
    """
    before = instead_of
    if outcome.admitted != before.admitted:
        return Harm.ADMITTED if outcome.admitted else Harm.REFUSED
    if not outcome.admitted:
        return None
    if before.mask is not None and (outcome.mask is None or width(outcome.mask) > width(before.mask)):
        return Harm.WIDER
    if before.preferred and not outcome.preferred:
        return Harm.NOT_PREFERRED
    if outcome.aligned is before.aligned:
        return None
    if any(outcome.aligned.get(resource, 0) < amount for resource, amount in before.aligned.items()):
        return Harm.LESS_ALIGNED
    return None
