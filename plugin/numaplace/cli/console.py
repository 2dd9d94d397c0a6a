"""A command's streams and environment. Passed in, so that tests need no patches."""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from numaplace.config.settings import CONFIG_FILE_ENV

FORMATS = ("table", "json")


@dataclass(frozen=True, slots=True)
class Console:
    """``out`` for data, ``err`` for messages, and the environment."""

    out: TextIO = field(default_factory=lambda: sys.stdout)
    err: TextIO = field(default_factory=lambda: sys.stderr)
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)

    @property
    def colour(self) -> bool:
        """Whether to colour: on a terminal, unless ``NO_COLOR`` is set to something (no-color.org)."""
        return self.out.isatty() and not self.env.get("NO_COLOR") and self.env.get("TERM") != "dumb"

    def config_file(self, given: Path | None) -> Path | None:
        """Return the daemon's configuration file: the one given, else the environment's, else None."""
        named = self.env.get(CONFIG_FILE_ENV)
        return given or (Path(named) if named else None)

    def say(self, text: str) -> None:
        print(text, file=self.out)

    def warn(self, text: str) -> None:
        print(text, file=self.err)

    def say_json(self, document: Any) -> None:
        self.say(json.dumps(document, indent=2, ensure_ascii=False))


def command_parser(name: str, description: str, *, epilog: str) -> ArgumentParser:
    return ArgumentParser(
        prog=f"numaplace {name}",
        description=description,
        epilog=epilog,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def add_output_option(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--output",
        choices=FORMATS,
        default="table",
        help="table for people (the default), json for programs",
    )
