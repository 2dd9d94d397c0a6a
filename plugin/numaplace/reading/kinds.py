"""The kinds of value a setting can have: how each is read from text, and how it is shown.

All sources give text (the file's scalars too, see ``document``), so a flag, an environment variable and
a line of the file accept the same spellings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

T = TypeVar("T")
E = TypeVar("E", bound=str)


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """``parse`` takes text and raises ``ValueError`` when it is not ``allowed``; ``show`` is its inverse.

    ``schema`` is what JSON Schema (draft 7) can say of ``allowed``, for typed YAML: never narrower than the
    documented spellings, at times wider (bounds of durations). Its patterns are in the syntax that
    Python, ECMA 262 and RE2 share. ``quoted``: what YAML reads as a number or truth value is refused, because
    tools that pass the file on, such as Helm, would write another text.
    """

    allowed: str
    parse: Callable[[str], T]
    show: Callable[[Any], str] = str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    quoted: bool = False


_TRUTH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def _parse_bool(text: str) -> bool:
    value = _TRUTH.get(text.lower())
    if value is None:
        raise ValueError(f"not a truth value: {text!r}")
    return value


def _show_bool(value: object) -> str:
    return "true" if value else "false"


BOOL = Kind("true or false", _parse_bool, _show_bool, {"type": "boolean"})


def integer(lowest: int, highest: int) -> Kind[int]:
    """Return the kind of a whole number within bounds, both included."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,18}", text) or not lowest <= int(text) <= highest:
            raise ValueError(f"outside {lowest}..{highest}")
        return int(text)

    schema = {"type": "integer", "minimum": lowest, "maximum": highest}
    return Kind(f"a whole number from {lowest} to {highest}", parse, schema=schema)


def choice(table: Iterable[E], *, also: Mapping[str, E] | None = None, note: str = "") -> Kind[E]:
    """Return the kind whose values are the table's; ``also`` maps further spellings that are accepted."""
    spellings: dict[str, E] = {str(member): member for member in table} | dict(also or {})

    def parse(text: str) -> E:
        if text.lower() in _TRUTH:  # a template engine may write True where the user wrote on
            text = text.lower()
        if text not in spellings:
            raise ValueError(f"not one of {list(spellings)}")
        return spellings[text]

    # YAML makes truth values of bare words such as off.
    truths = sorted({_TRUTH[text] for text in spellings if text in _TRUTH})
    return Kind(
        ", ".join(table) + note,
        parse,
        lambda value: "" if value is None else str(value),
        {"enum": [*spellings, *truths]},
    )


def matching(pattern: str, allowed: str) -> Kind[str]:
    compiled = re.compile(pattern, re.ASCII)

    def parse(text: str) -> str:
        if compiled.fullmatch(text) is None:
            raise ValueError(f"no match: {text!r}")
        return text

    return Kind(allowed, parse, schema={"type": "string", "pattern": f"^(?:{pattern})$"})


MAX_SOCKET_PATH_BYTES = 107
"""The kernel's limit for the path of a unix socket (``sun_path`` without its ending NUL)."""


def path(*, empty: bool = False, longest_bytes: int = 4095) -> Kind[Path | None]:
    """Return the kind of an absolute path; with ``empty``, an empty text reads as None."""

    def parse(text: str) -> Path | None:
        if empty and not text:
            return None
        if not text.startswith("/") or "\0" in text or len(text.encode()) > longest_bytes:
            raise ValueError(f"not an absolute path: {text!r}")
        return Path(text)

    def show(value: Path | None) -> str:
        return "" if value is None else str(value)

    limit = f" of at most {longest_bytes} bytes" if longest_bytes < 4095 else ""
    pattern = "^(?:/.*)?$" if empty else "^/"
    return Kind(
        f"an absolute path{limit}" + (", or empty" if empty else ""),
        parse,
        show,
        {"type": "string", "pattern": pattern, "maxLength": longest_bytes},
    )


def _parse_readable_file(text: str) -> Path:
    file = Path(text)
    if not file.is_absolute():
        raise ValueError(f"not an absolute path: {text!r}")
    try:
        with file.open("rb"):
            return file
    except OSError as error:
        raise ValueError(str(error)) from error


READABLE_FILE = Kind(
    "the absolute path of a file that exists and can be read",
    _parse_readable_file,
    schema={"type": "string", "pattern": "^/"},
)


TEXT = Kind("a text", str)
