"""The shell commands that documents show.

``sh``: every line is a command. ``console``: lines after ``$ `` are, the others are what they print. A block
that does not say what it is counts as commands if it begins like one. Comments after a command, and lines
that go on in the next one, are as in a shell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
LANGUAGES = frozenset({"sh", "console", "text", "yaml", "json", "python"})

_BEGINS = re.compile(r"\s*(make|git|kubectl|helm|numaplace|docker)\s")
_COMMENT = re.compile(r"(^|\s+)#( .*)?$")


def blocks(document: Path) -> Iterator[tuple[str, str]]:
    """Language and text of each code block."""
    for indent, language, text in FENCE.findall(document.read_text()):
        yield language, "\n".join(line.removeprefix(indent) for line in text.splitlines())


def commands(document: Path) -> Iterator[str]:
    """The commands, each in one line."""
    for language, text in blocks(document):
        if language == "sh" or (not language and _BEGINS.match(text)):
            yield from _joined(text.splitlines())
        elif language == "console":
            yield from _joined([line[2:] for line in text.splitlines() if line.startswith("$ ")])


def _joined(lines: list[str]) -> Iterator[str]:
    pending = ""
    for line in lines:
        bare = _COMMENT.sub("", line).strip()
        if not bare:
            continue
        pending = f"{pending} {bare}".strip()
        if pending.endswith("\\"):
            pending = pending[:-1].strip()
        elif not pending.endswith(("|", "&&")):
            yield pending
            pending = ""
    assert not pending, f"a command that does not end: {pending}"
