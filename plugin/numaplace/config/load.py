"""Loads the configuration: file, then environment, then flags; all problems are reported at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from numaplace.config.checks import clashes, entry_problems, warnings_of
from numaplace.config.schema import Config
from numaplace.config.settings import overlay, unknown_environment
from numaplace.config.walk import build
from numaplace.errors import ConfigError
from numaplace.reading.document import Section, parse_document, read_text
from numaplace.reading.keys import Keys

MAX_FILE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Loaded:
    """An accepted configuration, and warnings about it."""

    config: Config
    warnings: tuple[str, ...] = ()


def load_config(file: Path | None, *, env: Mapping[str, str], flags: Mapping[str, str | None]) -> Loaded:
    """Read, check and merge the sources; precedence is flag, environment, file.

    ``flags`` is keyed by key path (``kubelet.configFile``); None means not given. Raises ``ConfigError`` with
    every problem found; each names its source (file and line, flag, environment variable), key, value and
    what is allowed.
    """
    source = "the configuration" if file is None else str(file)
    top, found = (
        (Section(source), [])
        if file is None
        else parse_document(read_text(file, max_bytes=MAX_FILE_BYTES), source=source)
    )
    top = overlay(top, env=env, flags=flags)
    config = build(Config, Keys(top, "", found))
    found.extend(entry_problems(top))
    if config is not None:
        found.extend(clashes(config, top))
    if config is None or found:
        raise ConfigError(tuple(found))
    return Loaded(config, (*unknown_environment(env), *warnings_of(config, top)))
