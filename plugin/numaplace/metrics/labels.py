"""The closed sets of label values. Every other label is a resource, a NUMA node or a name from our code."""

from __future__ import annotations

from enum import StrEnum

FALLBACK_OUTCOME = "fallback"
"""``outcome`` of a decision that ended in a fallback answer, beside ``placement.reasons.Outcome``."""


class FallbackReason(StrEnum):
    """Why an answer was given with less than full knowledge, or without a decision."""

    DEADLINE = "deadline"
    """The time for one decision was up."""
    SNAPSHOT = "snapshot"
    """No allocation state was known yet: chosen by structure alone."""
    STALE = "stale"
    """PodResources did not answer in time: the last known state decided."""
    ERROR = "error"
    """The decision failed: our bug; the log has it."""
    INVALID_REQUEST = "invalid-request"
    """The kubelet's request was invalid."""
    INVALID_ANSWER = "invalid-answer"
    """The decision's answer did not pass the check of size, ids and must-include: our bug."""


class Alignment(StrEnum):
    """Where the devices of one answer are."""

    ONE_NODE = "one-node"
    """One NUMA node has all of them."""
    SPLIT = "split"
    """No NUMA node has all of them."""


class RegistrationResult(StrEnum):
    """How a registration with the kubelet went."""

    ACCEPTED = "accepted"
    FAILED = "failed"


class ReloadResult(StrEnum):
    """How a reload of the configuration went."""

    ACCEPTED = "accepted"
    REFUSED = "refused"


class SteeringFailure(StrEnum):
    """Why all topology was published."""

    DEADLINE = "deadline"
    """The time for one Allocate was up."""
    NO_LIST = "no-list"
    """PodResources did not answer in time, or has been silent too long."""
    UNDELIVERED = "undelivered"
    """The kubelet did not take a list in time."""
    ALIGNMENT = "alignment"
    """Devices were hidden from a container that had been placed before."""
    ERROR = "error"
    """Our bug; the log has it."""


class SteeredEffect(StrEnum):
    """What withheld topology did to a grant."""

    CHANGED = "changed"
    """Other NUMA nodes than the kubelet would have taken."""
    SAME = "same"


OTHER = "OTHER"
API_CODES = frozenset(
    {
        "OK", "UNAVAILABLE", "DECODE", "CREDENTIALS", "400", "401", "403", "404", "409", "410", "422", "429",
        "500", "502", "503", "504",
    }
)  # fmt: skip
"""HTTP statuses of the API server, and our codes for no answer, an unreadable one, and no credentials."""
METHODS = frozenset({"List", "Get", "GetAllocatableResources"})
CODES = frozenset(
    {
        "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
        "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
        "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED", "DECODE",
    }
)  # fmt: skip
"""gRPC's codes and ``DECODE``. Other codes of a peer count as ``OTHER``: labels stay bounded."""
