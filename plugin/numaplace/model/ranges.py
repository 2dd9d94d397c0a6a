"""Sets of ids as text, in the kernel's list format: ``0-3,8``."""

from __future__ import annotations

import re
from collections.abc import Iterable

_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


def ranges(numbers: Iterable[int]) -> str:
    """Return ``0-3,8`` for 0, 1, 2, 3, 8; empty for none."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


def parse_range(text: str, *, highest: int) -> range:
    """Return the ids of ``0-3`` or ``8``; ``ValueError`` for anything else."""
    match = _RANGE.fullmatch(text)
    if match is None:
        raise ValueError(f"not a range: {text!r}")
    first, last = int(match[1]), int(match[2] or match[1])
    if not first <= last <= highest:
        raise ValueError(f"{text} runs backwards, or beyond {highest}")
    return range(first, last + 1)
