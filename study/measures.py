"""The measures of a played trace, all in percent: one row each, from which tables and JSON take theirs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from study.fate import ADMITTED, Fate
from study.play import Placed, Record


@dataclass(frozen=True, slots=True)
class Measure:
    """``key`` is its name in JSON, ``heading`` in tables."""

    key: str
    heading: str
    of: Callable[[Record], float]


def _share(count: Callable[[Placed], bool]) -> Callable[[Record], float]:
    def percent(record: Record) -> float:
        return 100 * sum(map(count, record.jobs)) / len(record.jobs)

    return percent


def _fate(fate: Fate) -> Callable[[Record], float]:
    return _share(lambda job: job.fate is fate)


def _largest_aligned(record: Record) -> float:
    largest = [job.fate is Fate.ALIGNED for job in record.jobs if job.largest]
    return 100 * sum(largest) / len(largest) if largest else 0.0


MEASURES = (
    Measure("admitted", "admitted", _share(lambda job: job.fate in ADMITTED)),
    Measure("aligned", "aligned", _fate(Fate.ALIGNED)),
    Measure("fragmented", "refused, room free", _fate(Fate.FRAGMENTED)),
    Measure("oversized", "refused, never fits", _fate(Fate.OVERSIZED)),
    Measure("split", "split", _fate(Fate.SPLIT)),
    Measure("needless", "needlessly", _share(lambda job: job.needless)),
    Measure("astray", "CPUs elsewhere", _fate(Fate.ASTRAY)),
    Measure("largestAligned", "largest aligned", _largest_aligned),
    Measure("imbalance", "imbalance", lambda record: 100 * record.imbalance / record.time),
    Measure("used", "in use", lambda record: 100 * record.used / record.time),
)


def measure(record: Record) -> Mapping[str, float]:
    return {one.key: one.of(record) for one in MEASURES}
