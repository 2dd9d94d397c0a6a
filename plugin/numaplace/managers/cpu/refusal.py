"""Why the CPU manager refuses a container its CPUs."""

from __future__ import annotations

from enum import StrEnum

from numaplace.errors import AllocationError


class CpuRefusal(StrEnum):
    """``AllocationError.reason`` of the CPU manager.

    ``SMT_ALIGNMENT`` is the kubelet's own reason in the pod's status; a pod that is refused for any other
    one gets ``UnexpectedAdmissionError``. ``ENDLESS`` is where the kubelet would never answer: its admission
    loop spins, and so does the node.
    """

    SMT_ALIGNMENT = "SMTAlignmentError"
    TOO_FEW_CPUS = "too-few-cpus"
    NOT_FOUND = "cpus-not-found"
    MISCOUNTED = "cpus-miscounted"
    ENDLESS = "endless-distribution"


def too_few(wanted: int, available: int) -> AllocationError:
    return AllocationError(
        f"{wanted} CPUs are needed, {available} are available", reason=CpuRefusal.TOO_FEW_CPUS
    )


def endless(remainder: int) -> AllocationError:
    return AllocationError(
        f"the kubelet would never finish distributing CPUs: {remainder} are left, no NUMA node takes them",
        reason=CpuRefusal.ENDLESS,
    )
