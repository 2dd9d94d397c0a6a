"""A kubelet emulator on real sockets: for tests, for ``numaplace demo`` and for users without a cluster."""

from numaplace.kubelet.emulator.emulator import KubeletEmulator
from numaplace.kubelet.emulator.values import (
    KUBELET_RATE_LIMIT,
    NO_FAULTS,
    UNEXPECTED_ADMISSION_ERROR,
    Admission,
    Call,
    ContainerSpec,
    EmulatedNode,
    Endpoint,
    Faults,
    Limits,
    PodSpec,
    RateLimit,
    Registration,
)

__all__ = [
    "KUBELET_RATE_LIMIT",
    "NO_FAULTS",
    "UNEXPECTED_ADMISSION_ERROR",
    "Admission",
    "Call",
    "ContainerSpec",
    "EmulatedNode",
    "Endpoint",
    "Faults",
    "KubeletEmulator",
    "Limits",
    "PodSpec",
    "RateLimit",
    "Registration",
]
