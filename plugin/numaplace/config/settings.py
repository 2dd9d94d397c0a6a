"""The flag and environment variable of each scalar setting, derived from its key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from numaplace.config.fields import leaves
from numaplace.config.schema import Config
from numaplace.reading.document import Node, Scalar, Section
from numaplace.reading.keys import did_you_mean
from numaplace.reading.kinds import BOOL
from numaplace.reading.readers import Leaf

ENV_PREFIX = "NUMAPLACE_"
CONFIG_FILE_ENV = "NUMAPLACE_CONFIG"

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# The kubelet sets these in every container of a namespace that has a Service named numaplace.
_SERVICE_ENV = re.compile(r"NUMAPLACE(_\w+)?_(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)")


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. ``flag`` and ``env`` are empty for settings that only the file can hold (lists)."""

    key: str
    help: str
    allowed: str
    default: str | None
    flag: str = ""
    env: str = ""
    is_bool: bool = False


def flag_of(key: str) -> str:
    """Return ``--kubelet-pod-resources-socket`` for ``kubelet.podResourcesSocket``."""
    return "--" + _WORD_START.sub("-", key.replace(".", "-")).lower()


def env_of(key: str) -> str:
    """Return ``NUMAPLACE_KUBELET_POD_RESOURCES_SOCKET`` for ``kubelet.podResourcesSocket``."""
    return ENV_PREFIX + flag_of(key).removeprefix("--").replace("-", "_").upper()


@cache
def settings() -> tuple[Setting, ...]:
    found = []
    for key, field in leaves(Config):
        reader = field.reader
        if reader is None:
            continue
        default = None if field.required else reader.show(field.default)
        setting = Setting(key, reader.help, reader.allowed, default)
        if reader.scalar and "[]" not in key:
            is_bool = isinstance(reader, Leaf) and reader.kind is BOOL
            setting = replace(setting, flag=flag_of(key), env=env_of(key), is_bool=is_bool)
        found.append(setting)
    return tuple(found)


def setting_names() -> tuple[str, ...]:
    """Return every key path, such as ``kubelet.configFile`` and ``resources[].gpu.vendor``."""
    return tuple(setting.key for setting in settings())


def overlay(top: Section, *, env: Mapping[str, str], flags: Mapping[str, str | None]) -> Section:
    """Return the file's nodes with the environment's and, over them, the flags' values put in.

    ``flags`` is keyed by key path; None is a flag that was not given.
    """
    for setting in settings():
        if not setting.flag:
            continue
        for where, text in ((setting.env, env.get(setting.env)), (setting.flag, flags.get(setting.key))):
            if text is not None:
                top = _put(top, path=setting.key.split("."), value=Scalar(where, text))
    return top


def _put(section: Section, *, path: list[str], value: Scalar) -> Section:
    key, rest = path[0], path[1:]
    node: Node = value
    if rest:
        inner = section.entries.get(key, Section(value.where))
        if isinstance(inner, Scalar) and inner.null:
            inner = Section(inner.where)
        if not isinstance(inner, Section):
            return section  # the walk refuses the file's node
        node = _put(inner, path=rest, value=value)
    return Section(section.where, {**section.entries, key: node}, section.key_where)


def unknown_environment(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return a warning for each ``NUMAPLACE_…`` variable that is not a setting."""
    known = {setting.env for setting in settings() if setting.env} | {CONFIG_FILE_ENV}
    return tuple(
        f"{name}: no setting has this environment variable, it has no effect{did_you_mean(name, known)}"
        for name in sorted(env)
        if name.startswith(ENV_PREFIX) and name not in known and not _SERVICE_ENV.fullmatch(name)
    )
