"""How many seeds and examples are tried: a third of all. NUMAPLACE_TEST_SEEDS=1 tries all, as CI does."""

from __future__ import annotations

import math
import os
from fractions import Fraction

import pytest

EFFORT = Fraction(os.environ.get("NUMAPLACE_TEST_SEEDS") or "1/3")
LEAST_EXAMPLES = 10


def part(count: int) -> int:
    """Return how many of ``count`` seeds to try."""
    return math.ceil(count * EFFORT)


def examples(count: int) -> int:
    """Return how many of ``count`` hypothesis examples to try."""
    return max(part(count), LEAST_EXAMPLES)


def in_chunks(count: int, *, size: int) -> pytest.MarkDecorator:
    """Parametrize a test with ``seeds``: ranges of ``size`` that cover the tried part of ``count`` seeds.

    A test that counts how often something has happened can rely on whole ranges.
    """
    ranges = [range(first, first + size) for first in range(0, part(count), size)]
    return pytest.mark.parametrize("seeds", ranges, ids=lambda one: f"{one.start}-{one.stop - 1}")
