"""Where the host's file systems are mounted, as seen by this process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class HostRoots:
    """Roots that every read goes through.

    They are for reading only: the paths handed to containers (device nodes, mounts) are always the
    host's own, ``/dev/...``. ``cdi`` are the directories of CDI specifications (the runtimes' defaults).
    """

    sysfs: Path = Path("/sys")
    devfs: Path = Path("/dev")
    procfs: Path = Path("/proc")
    cdi: tuple[Path, ...] = (Path("/etc/cdi"), Path("/var/run/cdi"))
