"""CPU sets as whole numbers: bit *n* stands for CPU *n*. Sets of ids appear at the package's edge only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from numaplace.model.ranges import ranges


def bits_of(cpus: Iterable[int]) -> int:
    """Return the bits of the CPU ids; ``ValueError`` for a negative id."""
    bits = 0
    for cpu in cpus:
        bits |= 1 << cpu
    return bits


def ascending(bits: int) -> Iterator[int]:
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def cpus_of(bits: int) -> frozenset[int]:
    return frozenset(ascending(bits))


def cpu_list(bits: int) -> str:
    """Return the CPU ids in the kernel's list format: ``0-3,8``."""
    return ranges(ascending(bits))
