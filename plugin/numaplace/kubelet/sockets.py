"""Telling one socket file from another at the same path, and a fresh name for each start of a server."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from numaplace.model.names import ResourceName


class SocketIdentity(NamedTuple):
    """A socket file: device, inode, and the time it was made, since inode numbers are used again."""

    device: int
    inode: int
    modified_ns: int


def socket_identity(path: str | os.PathLike[str]) -> SocketIdentity | None:
    """Return what is at the path now; ``None`` for nothing, or for anything that is not a socket.

    The change time is left out on purpose: a ``chmod`` or a new SELinux label is no new socket.
    """
    try:
        found = os.stat(path)
    except OSError:
        return None
    if not stat.S_ISSOCK(found.st_mode):
        return None
    return SocketIdentity(found.st_dev, found.st_ino, found.st_mtime_ns)


def socket_prefix(resource: ResourceName) -> str:
    """Return the start of all socket names of the resource; a hash, since the path is short of room."""
    return f"numaplace-{hashlib.sha256(resource.encode()).hexdigest()[:10]}-"


def socket_name(resource: ResourceName, token: str) -> str:
    """Return the name for one start of the resource's server: ``numaplace-<hash>-<token>.sock``."""
    return f"{socket_prefix(resource)}{token}.sock"


def remove_leftovers(own: Path, *, prefix: str) -> None:
    """Remove the sockets beside ``own`` that killed processes left: same prefix, older, nobody listening.

    The age keeps a server that is just starting, bound but not yet listening, out of it.
    """
    ours = socket_identity(own)
    if ours is None:
        return
    for path in own.parent.glob(f"{prefix}*.sock"):
        found = socket_identity(path)
        if found and found.modified_ns < ours.modified_ns and not _has_listener(path):
            with suppress(OSError):
                path.unlink()


def _has_listener(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            return False
        except OSError:
            return True
    return True
