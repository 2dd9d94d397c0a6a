"""Reads of sysfs, procfs and devfs that never fail.

Anything there can vanish, be unreadable or hold garbage between two reads; every function here answers
with an empty value then, and the caller decides what that means. Whether something is really not there, or
could only not be read, ``noting_trouble`` says.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

StrPath = str | os.PathLike[str]

_CHUNK_BYTES = 1 << 16

_PROVES_NOTHING = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EACCES, errno.EIO, errno.ETIMEDOUT}
)
_trouble: ContextVar[list[str] | None] = ContextVar("trouble", default=None)


@contextmanager
def noting_trouble() -> Iterator[list[str]]:
    """Collect what could not be read though it may be there, while the context is open."""
    found: list[str] = []
    token = _trouble.set(found)
    try:
        yield found
    finally:
        _trouble.reset(token)


def _note(path: StrPath, error: OSError) -> None:
    found = _trouble.get()
    if found is not None and error.errno in _PROVES_NOTHING:
        found.append(f"{os.fspath(path)}: {error.strerror}")


def read_text(path: StrPath) -> str:
    """Return the file's text without surrounding blanks; empty when it cannot be read.

    A scan reads many hundreds of tiny files: plain system calls take a third of the time of a file
    object costs.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        _note(path, error)
        return ""
    try:
        content = b""
        while chunk := os.read(descriptor, _CHUNK_BYTES):
            content += chunk
    except OSError as error:
        _note(path, error)
        return ""
    finally:
        os.close(descriptor)
    return content.decode("utf-8", errors="replace").strip()


def read_pairs(path: StrPath, separator: str) -> dict[str, str]:
    """Return what the file's lines of a key, the separator and a value say; empty when it cannot be read."""
    pairs = (line.partition(separator) for line in read_text(path).splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def read_int(path: StrPath, *, base: int = 10) -> int | None:
    return to_int(read_text(path), base=base)


def to_int(text: str, *, base: int = 10) -> int | None:
    try:
        return int(text, base)
    except ValueError:
        return None


def link_name(path: StrPath) -> str:
    """Return the last part of the link's target (sysfs: ``driver``, ``physfn``); empty without a link."""
    try:
        return os.path.basename(os.readlink(path))
    except OSError as error:
        _note(path, error)
        return ""


def names_in(path: StrPath) -> tuple[str, ...]:
    """Return the sorted names in a directory; empty when it cannot be read."""
    try:
        return tuple(sorted(os.listdir(path)))
    except OSError as error:
        _note(path, error)
        return ()


def exists(path: StrPath) -> bool:
    """Return whether the path exists, following links; False when that cannot be read."""
    try:
        os.stat(path)
    except OSError as error:
        _note(path, error)
        return False
    return True


def existing_directories(*paths: Path) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(path for path in paths if os.path.isdir(path)))
