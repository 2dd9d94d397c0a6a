"""Kubernetes quantities: ``8``, ``500m``, ``16Gi``, ``1e3``, ``0.5``.

Follows apimachinery ``pkg/api/resource`` (``ParseQuantity``), without its limits on size.
"""

from __future__ import annotations

import re
from fractions import Fraction

from numaplace.model.names import ResourceName, is_memory

ALLOWED_QUANTITY = "a quantity as in Kubernetes, such as 8, 500m, 16Gi or 1e3"

_QUANTITY = re.compile(
    r"([+-]?)([0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30})(?:([eE])([+-]?[0-9]{1,2})|([a-zA-Z]*))"
)
_FACTORS: dict[str, Fraction] = {
    **{
        unit: Fraction(1000) ** power
        for power, unit in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), start=-3)
    },
    **{
        unit: Fraction(1024) ** power
        for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)
    },
}


def parse_quantity(text: str) -> Fraction:
    """Return the exact amount; ``ValueError`` for anything that is not a quantity."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"not a quantity: {text!r}")
    sign, number, exponent_mark, exponent, unit = match.groups()
    factor = Fraction(10) ** int(exponent) if exponent_mark else _FACTORS.get(unit)
    if factor is None:
        raise ValueError(f"not a quantity: {text!r} has the unknown unit {unit!r}")
    amount = Fraction(number.rstrip(".") or "0") * factor
    return -amount if sign == "-" else amount


def rounded_up(amount: Fraction) -> int:
    """Return the amount rounded up (``Quantity.Value``)."""
    return -((-amount.numerator) // amount.denominator)


def binary_text(amount: int) -> str:
    """Return the amount with the largest binary unit that divides it: ``4Gi``, ``1536Mi``, ``5``."""
    for unit in ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki"):
        if amount and amount % _FACTORS[unit] == 0:
            return f"{amount // _FACTORS[unit]}{unit}"
    return str(amount)


def quantity_text(name: ResourceName, amount: int) -> str:
    """Return an amount as in a pod's spec: memory as ``binary_text``, else the number."""
    return binary_text(amount) if is_memory(name) else str(amount)
