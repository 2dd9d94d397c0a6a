"""What was decided and why, as data; ``text`` renders it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from numaplace.model.names import ResourceName
from numaplace.prediction.harm import Harm, Prediction
from numaplace.prediction.predict import Withheld
from numaplace.prediction.request import Request


class Reason(StrEnum):
    """Why nothing is withheld, of some resources or of all."""

    POLICY_NONE = "topology-manager-policy-none"
    POLICY_UNKNOWN = "policy-unknown"
    STATE_UNKNOWN = "state-unknown"
    NO_STRATEGY = "no-strategy"
    KUBELET_STRATEGY = "kubelet-has-a-strategy"
    ONE_NODE = "one-numa-node"
    NOTHING_STEERABLE = "nothing-steerable"
    MIXED_STRATEGIES = "mixed-strategies"
    SEVERAL_SIZES = "several-sizes"
    REQUESTS_UNKNOWN = "requests-unknown"
    OTHERS_MAY_COME = "other-requests-may-come"
    NOTHING_TO_GAIN = "nothing-to-gain"
    CONFLICT = "no-common-set"
    UNSAFE = "unsafe"
    HEADROOM = "headroom"
    UNDER_ADMISSION = "admission-under-way"
    HELD_OFF = "held-off-after-a-refusal"
    KUBELET_STARTED = "kubelet-just-started"
    FAILED = "failed"
    TOO_MANY = "too-many"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason and what it is about.

    ``resources`` are those that stay exposed for it; empty: all. ``request`` is the one that it fails for,
    ``other`` the one that stands against it, ``harm`` what would be worse, ``mask`` the NUMA nodes
    concerned (0: none), ``what`` a clause where the reason alone says too little.
    """

    reason: Reason
    resources: frozenset[ResourceName] = frozenset()
    request: Request | None = None
    other: Request | None = None
    harm: Harm | None = None
    mask: int = 0
    what: str = ""


@dataclass(frozen=True, slots=True)
class RequestForecast:
    """What becomes of one unit of a known request: without steering, by the strategy, and as decided.

    ``scores`` are those of the masks where the strategy wants it and where it would go without steering, if
    these differ and have one (KEP-6007): the reason for it.
    """

    request: Request
    stock: Prediction
    wanted: Prediction
    steered: Prediction
    scores: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WithoutSteering:
    """Where a grant would be without steering, if that is elsewhere; ``scores`` as in ``RequestForecast``."""

    mask: int
    scores: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SteeringDecision:
    """Which free devices are to show no topology: those that touch one of the named NUMA nodes.

    ``requests`` holds the known requests for a steerable resource; ``refusals`` says why resources
    stay exposed.
    """

    withheld: Withheld = field(default_factory=dict)
    refusals: tuple[Refusal, ...] = ()
    requests: tuple[RequestForecast, ...] = ()

    @property
    def steers(self) -> bool:
        return bool(self.withheld)
