"""Every exception that numaplace raises on purpose.

The classes follow what the caller does: ``InputError`` is for the user to fix (exit code 2),
``PeerError`` is a peer's failure (survived and counted), anything else is our bug.
"""

from __future__ import annotations

from typing import ClassVar


class NumaplaceError(Exception):
    """Base of all errors raised on purpose."""


class InputError(NumaplaceError):
    """Bad input of the user: a file, key, flag or value. The message says where and what is allowed."""


class ConfigError(InputError):
    """A file of the user is refused. ``problems`` holds one complete sentence per problem."""

    subject: ClassVar[str] = "the configuration"

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


class ScenarioError(ConfigError):
    """A scenario is refused."""

    subject = "the scenario"


class OptionError(InputError):
    """A Topology Manager policy option is unknown, not enabled, or has a wrong value."""


class PeerError(NumaplaceError):
    """A peer (kubelet, vendor plugin, API server) failed or sent an invalid answer."""

    def __init__(self, message: str, *, code: str = "UNKNOWN") -> None:
        self.code = code
        super().__init__(message)


class AllocationError(NumaplaceError):
    """A manager refuses a container its devices, CPUs or memory.

    ``reason`` is the manager's code (``managers.devices.Refusal``, ``CpuRefusal``, ``MemoryRefusal``);
    in the kubelet emulator it may be the resource's name.
    """

    def __init__(self, message: str, *, reason: str) -> None:
        self.reason = reason
        super().__init__(message)
