"""Per-resource score weights: KEP-6007's ``numa-score-weights``, for example ``cpu=3,nvidia.com/gpu=6``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from numaplace.errors import OptionError
from numaplace.model.names import ResourceName

DEFAULT_WEIGHT = 1
MAX_WEIGHT = 100
ALLOWED = f"resource=weight with an integer weight from 0 to {MAX_WEIGHT}"

_DIGITS = re.compile(r"[0-9]+")
_NEGATIVE = re.compile(r"-[0-9]+(\.[0-9]*)?")
_FRACTION = re.compile(r"[0-9]*\.[0-9]+|[0-9]+\.")
_BLANKS = " \t\r\n"


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each resource counts in a score: 0 excludes it, an unnamed one weighs 1.

    ``entries`` are (resource, weight) in the order of the names; made by ``parse_weights`` or
    ``weights_from_mapping``, which check them.
    """

    entries: tuple[tuple[ResourceName, int], ...] = ()
    _table: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_table", dict(self.entries))

    def of(self, resource: ResourceName) -> int:
        return self._table.get(resource, DEFAULT_WEIGHT)

    @property
    def text(self) -> str:
        """The canonical option string, sorted by name; equal weights have equal text, no entries none."""
        return ",".join(f"{name}={weight}" for name, weight in self.entries)


def parse_weights(text: str) -> Weights:
    """Parse ``resource=weight`` pairs, separated by commas; blanks and empty entries are skipped.

    Names are not checked against the node: an unknown one simply never scores (KEP-6007).
    Raises one ``OptionError`` that names every bad entry, and what is allowed.
    """
    return _collect(partial(_split, entry) for entry in text.split(",") if entry.strip(_BLANKS))


def weights_from_mapping(mapping: Mapping[str, object]) -> Weights:
    """Make weights from a map of resource to integer, as YAML gives it; same refusals as the string."""
    return _collect(partial(_entry, name, value) for name, value in mapping.items())


class _EntryError(Exception):
    """One entry, and what is wrong with it."""

    def __init__(self, entry: str, reason: str) -> None:
        super().__init__(f"entry {entry!r}: {reason}")


def _collect(entries: Iterable[Callable[[], tuple[str, int]]]) -> Weights:
    found: dict[ResourceName, int] = {}
    problems: list[str] = []
    for read in entries:
        try:
            name, weight = read()
        except _EntryError as error:
            problems.append(str(error))
            continue
        resource = ResourceName(name)
        if resource in found:
            problems.append(str(_EntryError(f"{name}={weight}", f"resource {name!r} is named twice")))
        found[resource] = weight
    if problems:
        listed = "; ".join(problems)
        raise OptionError(f"numa-score-weights: {listed} (allowed: {ALLOWED}, each name once)")
    return Weights(tuple(sorted(found.items())))


def _split(entry: str) -> tuple[str, int]:
    entry = entry.strip(_BLANKS)
    name, separator, value = (part.strip(_BLANKS) for part in entry.partition("="))
    if not separator:
        raise _EntryError(entry, "'=' is missing")
    if not name:
        raise _EntryError(entry, "the resource name is empty")
    if not _DIGITS.fullmatch(value):
        raise _EntryError(entry, _why_not(value))
    digits = value.lstrip("0") or "0"
    # Checked by length first: int() refuses texts of thousands of digits with an error of its own.
    if len(digits) > len(str(MAX_WEIGHT)):
        raise _EntryError(entry, f"weight {value!r} is above {MAX_WEIGHT}")
    return name, _in_range(entry, int(digits))


def _entry(name: object, value: object) -> tuple[str, int]:
    entry = f"{name}: {value!r}"
    if not isinstance(name, str):
        raise _EntryError(entry, f"the resource name {name!r} is not a string")
    name = name.strip(_BLANKS)
    if not name:
        raise _EntryError(entry, "the resource name is empty")
    if "=" in name or "," in name:
        raise _EntryError(entry, f"the resource name {name!r} holds '=' or ','")
    if isinstance(value, float):
        raise _EntryError(entry, f"weight {value!r} is fractional")
    if isinstance(value, bool) or not isinstance(value, int):
        raise _EntryError(entry, f"weight {value!r} is not an integer")
    return name, _in_range(entry, value)


def _in_range(entry: str, weight: int) -> int:
    if weight < 0:
        raise _EntryError(entry, f"weight {weight} is negative")
    if weight > MAX_WEIGHT:
        raise _EntryError(entry, f"weight {weight} is above {MAX_WEIGHT}")
    return weight


def _why_not(value: str) -> str:
    if not value:
        return "the weight is empty"
    if _NEGATIVE.fullmatch(value):
        return f"weight {value!r} is negative"
    if _FRACTION.fullmatch(value):
        return f"weight {value!r} is fractional"
    return f"weight {value!r} is not an integer"
