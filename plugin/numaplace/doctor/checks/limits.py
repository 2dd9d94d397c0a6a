"""System limits that matter to a daemon which watches files and serves sockets."""

from __future__ import annotations

from collections.abc import Iterator

from numaplace.doctor.facts import Facts
from numaplace.doctor.findings import Finding, Level

LEAST_INSTANCES = 128
LEAST_WATCHES = 8192
LEAST_OPEN_FILES = 1024
_SYSCTL = (
    "raise them, for example: sysctl fs.inotify.max_user_instances=1024 fs.inotify.max_user_watches=524288 "
    "(and in /etc/sysctl.d)"
)


def limits(facts: Facts) -> Iterator[Finding]:
    seen = facts.limits
    shown = (
        f"fs.inotify.max_user_instances is {_shown(seen.inotify_instances)}, "
        f"max_user_watches {_shown(seen.inotify_watches)}"
    )
    if seen.inotify_error:
        yield Finding(
            Level.WARNING,
            "no inotify instance is left: sockets and devices are only polled",
            f"{seen.inotify_error}; {shown}",
            _SYSCTL,
        )
    elif seen.inotify_instances is None or seen.inotify_watches is None:
        yield Finding(
            Level.UNKNOWN,
            "the inotify limits cannot be read; an instance can be created",
            "there is no sys/fs/inotify in procfs",
        )
    elif seen.inotify_instances < LEAST_INSTANCES or seen.inotify_watches < LEAST_WATCHES:
        yield Finding(
            Level.WARNING,
            "the inotify limits are low for a node where many agents watch files",
            f"{shown}; usual are at least {LEAST_INSTANCES} and {LEAST_WATCHES}",
            _SYSCTL,
        )
    else:
        yield Finding(Level.OK, "inotify is available", shown)
    if seen.open_files is not None and seen.open_files < LEAST_OPEN_FILES:
        yield Finding(
            Level.WARNING,
            "the limit of open files is low",
            f"the soft limit of this process is {seen.open_files}; the daemon's may differ",
            f"give the daemon at least {LEAST_OPEN_FILES}: LimitNOFILE= in its unit, or the container "
            "runtime's ulimits",
        )


def _shown(limit: int | None) -> str:
    return "unknown" if limit is None else str(limit)
