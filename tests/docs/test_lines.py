"""How texts are written: documents in short lines, all in plain words; an index names every document."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = ROOT / "plugin" / "numaplace"
MOST_CHARACTERS = 120


STUMBLING = re.compile(
    r"\b(tells? of|told of|heeds?|(go|goes|gone|went) by|off worse|mend(s|ed)?|foretells?|foretold"
    r"|for want of|trying on|odd|heard|a shape)\b",
    re.IGNORECASE,
)
"""Words at which a reader stumbles; plain technical English has others."""

_FENCED = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)


def markdown() -> Iterator[Path]:
    """Every Markdown file of the repository."""
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name == ".github" or not name.startswith((".", "_"))]
        yield from (Path(folder, name) for name in files if name.endswith(".md"))


def too_long(text: str) -> list[str]:
    """Lines above the limit, but for table rows, code blocks, images and lines without a space."""
    lines = _FENCED.sub("", text).splitlines()
    breakable = (line for line in lines if not line.startswith(("|", "![")) and " " in line.strip())
    return [line for line in breakable if len(line) > MOST_CHARACTERS]


@pytest.mark.parametrize("document", sorted(markdown()), ids=lambda path: str(path.relative_to(ROOT)))
def test_lines_are_short(document: Path) -> None:
    assert too_long(document.read_text()) == []


@pytest.mark.parametrize("document", sorted(markdown()), ids=lambda path: str(path.relative_to(ROOT)))
def test_words_are_plain(document: Path) -> None:
    found = STUMBLING.finditer(_FENCED.sub("", document.read_text()))
    assert [match[0] for match in found] == []


@pytest.mark.parametrize("source", sorted(CODE.rglob("*.py")), ids=lambda path: str(path.relative_to(CODE)))
def test_words_of_messages_and_comments_are_plain(source: Path) -> None:
    """Operators read log messages, metric help texts, findings and errors; contributors read the rest."""
    assert [match[0] for match in STUMBLING.finditer(source.read_text())] == []


def test_the_index_names_every_document() -> None:
    index = (ROOT / "docs/README.md").read_text()
    linked = set(re.findall(r"\]\(([\w-]+\.md)", index))
    assert linked == {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
