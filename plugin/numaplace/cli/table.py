"""Tables: aligned columns, headings in bold where colour is wanted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tabulate import tabulate

_RESET = "\x1b[0m"
BOLD = "\x1b[1m"
YELLOW = "\x1b[33m"

Cell = str | int


def paint(text: str, style: str, *, colour: bool) -> str:
    return f"{style}{text}{_RESET}" if colour and text else text


def render_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    right: Sequence[str] = (),
    colour: bool = False,
) -> str:
    """Return the table's lines without trailing blanks. Columns named in ``right`` are right-aligned."""
    text = tabulate(
        [list(row) for row in rows],
        headers=[paint(heading, BOLD, colour=colour) for heading in headings],
        tablefmt="plain",
        colalign=["right" if heading in right else "left" for heading in headings],
        disable_numparse=True,
    )
    return "\n".join(line.rstrip() for line in text.splitlines())


_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def human_bytes(size_bytes: int) -> str:
    """Return the size in the largest binary unit that it fills, with one decimal where it is not whole."""
    size, unit = float(size_bytes), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    number = f"{size:.0f}" if size == int(size) else f"{size:.1f}"
    return f"{number} {_UNITS[unit]}"
