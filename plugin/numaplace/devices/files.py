"""Reads of sysfs, procfs and devfs that never fail.

Anything there can vanish, be unreadable or hold garbage between two reads; every function here answers
with an empty value then, and the caller decides what that means.
"""

from __future__ import annotations

import os
from pathlib import Path


def read_text(path: Path) -> str:
    """Return the file's text without surrounding blanks; empty when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def read_int(path: Path, *, base: int = 10) -> int | None:
    """Return the file's number, or None when there is none."""
    return to_int(read_text(path), base=base)


def to_int(text: str, *, base: int = 10) -> int | None:
    """Return the number that ``text`` spells, or None."""
    try:
        return int(text, base)
    except ValueError:
        return None


def link_name(path: Path) -> str:
    """Return the last part of the link's target (sysfs: ``driver``, ``physfn``); empty without a link."""
    try:
        return os.path.basename(os.readlink(path))
    except OSError:
        return ""


def names_in(path: Path) -> tuple[str, ...]:
    """Return the sorted names in a directory; empty when it cannot be read."""
    try:
        return tuple(sorted(os.listdir(path)))
    except OSError:
        return ()


def exists(path: Path) -> bool:
    """Return whether the path exists, following links; False when that cannot be told."""
    try:
        path.stat()
    except OSError:
        return False
    return True


def existing_directories(*paths: Path) -> tuple[Path, ...]:
    """Return those paths that are directories now, without repeats."""
    return tuple(dict.fromkeys(path for path in paths if os.path.isdir(path)))
