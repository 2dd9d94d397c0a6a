"""Examines sockets and their folders without sending anything to the listeners.

A second ListAndWatch takes the health events away from some vendors' plugins, and a Register changes the
kubelet's state. So a socket is connected to and closed again: the kernel then shows that there is a listener,
and who (``SO_PEERCRED`` holds the process that called listen).
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from pathlib import Path

from numaplace.devices.files import read_text
from numaplace.doctor.facts import FolderFact, PathKind, SocketFact

_CONNECT_SECONDS = 2.0
_PEER = struct.Struct("3i")


def look_at_socket(path: Path, *, procfs: Path) -> SocketFact:
    """Return the listener at the path. ``procfs`` is that of this process's PID namespace."""
    kind = _kind(path)
    if kind is not PathKind.SOCKET:
        return SocketFact(path, kind, denied=kind is PathKind.DENIED)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_CONNECT_SECONDS)
        try:
            probe.connect(os.fspath(path))
        except OSError as error:
            denied = isinstance(error, PermissionError)
            return SocketFact(path, kind, error=error.strerror or str(error), denied=denied)
        pid, _, _ = _PEER.unpack(probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return SocketFact(path, kind, process=read_text(procfs / str(pid) / "comm") if pid else "")


def look_at_folder(path: Path, *, procfs: Path) -> FolderFact:
    """Return the folder and the sockets in it, sub-folders not included."""
    kind = _kind(path)
    if kind is not PathKind.DIRECTORY:
        return FolderFact(path, kind)
    try:
        names = sorted(os.listdir(path))
        read_only = bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return FolderFact(path, PathKind.DENIED)
    found = (look_at_socket(path / name, procfs=procfs) for name in names)
    return FolderFact(
        path,
        kind,
        writable=os.access(path, os.W_OK | os.X_OK),
        read_only=read_only,
        sockets=tuple(one for one in found if one.kind is PathKind.SOCKET),
    )


def _kind(path: Path) -> PathKind:
    try:
        mode = os.stat(path).st_mode
    except PermissionError:
        return PathKind.DENIED
    except OSError:
        return PathKind.MISSING
    if stat.S_ISSOCK(mode):
        return PathKind.SOCKET
    return PathKind.DIRECTORY if stat.S_ISDIR(mode) else PathKind.OTHER
