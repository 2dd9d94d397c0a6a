"""Folders for fake hosts and sockets: in memory, where there is room, and with short paths."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SHARED = "/dev/shm"
LEAST_BYTES = 32 << 20


def _place() -> str:
    try:
        status = os.statvfs(SHARED)
    except OSError:
        return "/tmp"
    room = status.f_bavail * status.f_frsize >= LEAST_BYTES
    return SHARED if room and os.access(SHARED, os.W_OK | os.X_OK) else "/tmp"


PLACE = _place()


@contextmanager
def short_folder() -> Iterator[Path]:
    """Make a folder whose path leaves room for a socket name, which pytest's tmp_path may not."""
    folder = Path(tempfile.mkdtemp(prefix="np-", dir=PLACE))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
