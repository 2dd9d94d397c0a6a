"""The order in which Go walks maps and sets: random, from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import TypeVar

from numaplace.model.names import DeviceId

T = TypeVar("T")


class MapOrder:
    """A seeded shuffle."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - a repeatable order, not a secret

    def ids(self, ids: Iterable[DeviceId]) -> Sequence[DeviceId]:
        # Python's own set order differs from process to process.
        return self.walk(sorted(ids))

    def walk(self, items: Iterable[T]) -> list[T]:
        walked = list(items)
        self._random.shuffle(walked)
        return walked
