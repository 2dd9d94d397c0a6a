"""Lists and numbers in sentences."""

from __future__ import annotations

from collections.abc import Iterable

_SHOWN = 8


def numbers(ids: Iterable[int]) -> str:
    """Return ``0, 1, 3``."""
    return ", ".join(map(str, ids))


def counted(number: int, noun: str) -> str:
    """Return ``1 device``, ``2 devices``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def listed(names: Iterable[str], *, most: int = _SHOWN) -> str:
    found = list(names)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return f"{', '.join(found[:most])}{more}"
