"""Kinds of amounts: durations, and Kubernetes quantities of what a pod or a node has."""

from __future__ import annotations

import re
from functools import partial

from numaplace.model.quantity import ALLOWED_QUANTITY, parse_quantity, rounded_up
from numaplace.reading.kinds import Kind

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """Return the seconds of ``200ms``, ``1.5s``, ``5m`` or ``1h``; ``ValueError`` for anything else."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"not a duration: {text!r}")
    return float(match[1]) * _SECONDS[match[2]]


def show_duration(seconds: float) -> str:
    """Return the duration in the largest unit that keeps it whole, else in milliseconds."""
    for unit in ("h", "m", "s"):
        count = seconds / _SECONDS[unit]
        if count >= 1 and count == int(count):
            return f"{int(count)}{unit}"
    return f"{seconds * 1000:.6f}".rstrip("0").rstrip(".") + "ms"


def duration(shortest: str, longest: str) -> Kind[float]:
    """Return the kind of a duration within bounds, in seconds."""
    low, high = parse_duration(shortest), parse_duration(longest)

    def parse(text: str) -> float:
        seconds = parse_duration(text)
        if not low <= seconds <= high:
            raise ValueError(f"outside {shortest}..{longest}")
        return seconds

    allowed = f"a number with one of the units ms, s, m, h, from {shortest} to {longest}"
    schema = {"type": "string", "pattern": rf"^{_DURATION.pattern}$"}
    return Kind(allowed, parse, show_duration, schema)


_QUANTITY = re.compile(r"([0-9]{1,18})(Ki|Mi|Gi|Ti|Pi|Ei|k|M|G|T|P|E)?")


def _parse_whole_quantity(text: str) -> int:
    if _QUANTITY.fullmatch(text) is None:
        raise ValueError(f"not a whole quantity: {text!r}")
    return int(parse_quantity(text))


QUANTITY = Kind(
    "a whole number, with a Kubernetes suffix if wanted, such as 8 or 32Gi",
    _parse_whole_quantity,
    schema={
        "anyOf": [
            {"type": "string", "pattern": f"^{_QUANTITY.pattern}$"},
            {"type": "integer", "minimum": 0, "maximum": 10**18 - 1},
        ]
    },
)


def parse_size(text: str) -> int:
    """Return the quantity, rounded up; ``ValueError`` for a negative one or anything else."""
    return _not_negative(text, per_unit=1)


def _not_negative(text: str, *, per_unit: int) -> int:
    amount = rounded_up(parse_quantity(text) * per_unit)
    if amount < 0:
        raise ValueError(f"negative: {text!r}")
    return amount


SIZE = Kind(f"{ALLOWED_QUANTITY}, not negative", parse_size)
MILLICORES = Kind(SIZE.allowed, partial(_not_negative, per_unit=1000))


def _parse_pieces(text: str) -> int:
    amount = parse_quantity(text)
    if amount.denominator != 1 or amount < 0:
        raise ValueError(f"not a whole number: {text!r}")
    return int(amount)


PIECES = Kind("a whole number of devices", _parse_pieces)
